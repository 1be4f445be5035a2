; What the pool asks of macOS.

%Seat = type { [32 x i64] }

declare i32 @__ulock_wait(i32, ptr, i64, i32)
declare i32 @__ulock_wake(i32, ptr, i64)
declare i64 @clock_gettime_nsec_np(i32)
declare i32 @sched_yield()
declare i32 @posix_memalign(ptr, i64, i64)
declare void @free(ptr)
declare i64 @write(i32, ptr, i64)

; Sleeps while the word holds the value, for some nanoseconds at most; -1: for ever.
define internal void @portable_wait(ptr %word, i32 %value, i64 %nanoseconds) {
  %for.ever = icmp slt i64 %nanoseconds, 0
  %microseconds = udiv i64 %nanoseconds, 1000
  %short = trunc i64 %microseconds to i32
  %limit = select i1 %for.ever, i32 0, i32 %short
  %wide = zext i32 %value to i64
  %result = call i32 @__ulock_wait(i32 1, ptr %word, i64 %wide, i32 %limit)
  ret void
}

; Wakes those who sleep there: one, or all.
define internal void @portable_wake(ptr %word, i32 %count) {
  %several = icmp ugt i32 %count, 1
  %operation = select i1 %several, i32 257, i32 1
  %result = call i32 @__ulock_wake(i32 %operation, ptr %word, i64 0)
  ret void
}

; Leaves the processor to another thread that is ready to run, if there is one.
define internal void @portable_give_way() {
  %result = call i32 @sched_yield()
  ret void
}

; Nanoseconds of a clock that never goes back.
define internal i64 @portable_clock() {
  %all = call i64 @clock_gettime_nsec_np(i32 8)
  ret i64 %all
}

; Memory that begins at a multiple of 128; null if there is none.
define internal ptr @portable_take_memory(i64 %bytes) {
  %at = alloca ptr
  store ptr null, ptr %at
  %result = call i32 @posix_memalign(ptr %at, i64 128, i64 %bytes)
  %memory = load ptr, ptr %at
  ret ptr %memory
}

define internal void @portable_give_back(ptr %memory) {
  call void @free(ptr %memory)
  ret void
}

; Writes whole lines to the standard output.
define void @portable_print(ptr %text, i64 %length) {
  %result = call i64 @write(i32 1, ptr %text, i64 %length)
  ret void
}

; The system finds processors for threads by itself.
define internal void @portable_sit(ptr %seat) {
  ret void
}

define internal void @portable_rise(ptr %seat) {
  ret void
}

define internal void @portable_keep_off(ptr %seats, i32 %count) {
  ret void
}
