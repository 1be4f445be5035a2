; What the pool asks of the instruction set.

declare void @llvm.x86.sse2.pause()

; For loops that wait: leaves the core to others for a moment.
define internal void @portable_pause() alwaysinline {
  call void @llvm.x86.sse2.pause()
  ret void
}

; Linux's number of the system call.
define internal i64 @portable_futex() alwaysinline {
  ret i64 202
}
