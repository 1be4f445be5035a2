"""The devices of OpenCL, by PyOpenCL."""
