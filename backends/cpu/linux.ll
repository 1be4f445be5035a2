; What the pool asks of Linux.

declare i64 @syscall(i64, ...)
declare i32 @clock_gettime(i32, ptr)
declare i32 @posix_memalign(ptr, i64, i64)
declare void @free(ptr)
declare i64 @write(i32, ptr, i64)

; Sleeps while the word holds the value, for some nanoseconds at most; -1: for ever.
define internal void @portable_wait(ptr %word, i32 %value, i64 %nanoseconds) {
entry:
  %time = alloca [2 x i64]
  %for.ever = icmp slt i64 %nanoseconds, 0
  %seconds = sdiv i64 %nanoseconds, 1000000000
  %rest = srem i64 %nanoseconds, 1000000000
  store i64 %seconds, ptr %time
  %rest.at = getelementptr i64, ptr %time, i64 1
  store i64 %rest, ptr %rest.at
  %limit = select i1 %for.ever, ptr null, ptr %time
  %number = call i64 @portable_futex()
  %result = call i64 (i64, ...) @syscall(i64 %number, ptr %word, i64 128, i32 %value, ptr %limit, ptr null, i64 0)
  ret void
}

; Wakes so many of those who sleep there.
define internal void @portable_wake(ptr %word, i32 %count) {
  %number = call i64 @portable_futex()
  %result = call i64 (i64, ...) @syscall(i64 %number, ptr %word, i64 129, i32 %count, ptr null, ptr null, i64 0)
  ret void
}

; Nanoseconds of a clock that never goes back.
define internal i64 @portable_clock() {
  %time = alloca [2 x i64]
  %result = call i32 @clock_gettime(i32 1, ptr %time)
  %seconds = load i64, ptr %time
  %rest.at = getelementptr i64, ptr %time, i64 1
  %rest = load i64, ptr %rest.at
  %whole = mul i64 %seconds, 1000000000
  %all = add i64 %whole, %rest
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
