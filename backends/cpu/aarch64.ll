; What the pool asks of the instruction set.

declare void @llvm.aarch64.hint(i32)

; For loops that wait: leaves the core to others for a moment.
define internal void @portable_pause() alwaysinline {
  call void @llvm.aarch64.hint(i32 1)
  ret void
}

; Linux's number of the system call.
define internal i64 @portable_futex() alwaysinline {
  ret i64 98
}
