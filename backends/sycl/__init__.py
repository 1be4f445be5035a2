"""The devices of SYCL, by dpctl and dpnp."""
