; What the pool asks of Windows.

%Seat = type { [32 x i64] }

declare i32 @WaitOnAddress(ptr, ptr, i64, i32)
declare void @WakeByAddressSingle(ptr)
declare void @WakeByAddressAll(ptr)
declare i32 @SwitchToThread()
declare i32 @QueryPerformanceCounter(ptr)
declare i32 @QueryPerformanceFrequency(ptr)
declare ptr @_aligned_malloc(i64, i64)
declare void @_aligned_free(ptr)
declare i32 @_write(i32, ptr, i32)

; Sleeps while the word holds the value, for some nanoseconds at most; -1: for ever. Less than a
; millisecond, which is the least that the system knows, leaves the processor to another thread.
define internal void @portable_wait(ptr %word, i32 %value, i64 %nanoseconds) {
entry:
  %expected = alloca i32
  store i32 %value, ptr %expected
  %for.ever = icmp slt i64 %nanoseconds, 0
  %milliseconds = udiv i64 %nanoseconds, 1000000
  %short = trunc i64 %milliseconds to i32
  %limit = select i1 %for.ever, i32 -1, i32 %short
  %is.brief = icmp eq i32 %limit, 0
  br i1 %is.brief, label %give.way, label %sleep
give.way:
  call void @portable_give_way()
  ret void
sleep:
  %result = call i32 @WaitOnAddress(ptr %word, ptr %expected, i64 4, i32 %limit)
  ret void
}

; Wakes those who sleep there: one, or all.
define internal void @portable_wake(ptr %word, i32 %count) {
entry:
  %several = icmp ugt i32 %count, 1
  br i1 %several, label %all, label %one
all:
  call void @WakeByAddressAll(ptr %word)
  ret void
one:
  call void @WakeByAddressSingle(ptr %word)
  ret void
}

; Leaves the processor to another thread that is ready to run, if there is one.
define internal void @portable_give_way() {
  %result = call i32 @SwitchToThread()
  ret void
}

; Nanoseconds of a clock that never goes back.
define internal i64 @portable_clock() {
  %now = alloca i64
  %rate = alloca i64
  %first = call i32 @QueryPerformanceCounter(ptr %now)
  %second = call i32 @QueryPerformanceFrequency(ptr %rate)
  %ticks = load i64, ptr %now
  %frequency = load i64, ptr %rate
  %seconds = udiv i64 %ticks, %frequency
  %rest = urem i64 %ticks, %frequency
  %whole = mul i64 %seconds, 1000000000
  %scaled = mul i64 %rest, 1000000000
  %part = udiv i64 %scaled, %frequency
  %all = add i64 %whole, %part
  ret i64 %all
}

; Memory that begins at a multiple of 128; null if there is none.
define internal ptr @portable_take_memory(i64 %bytes) {
  %memory = call ptr @_aligned_malloc(i64 %bytes, i64 128)
  ret ptr %memory
}

define internal void @portable_give_back(ptr %memory) {
  call void @_aligned_free(ptr %memory)
  ret void
}

; Writes whole lines to the standard output.
define void @portable_print(ptr %text, i64 %length) {
  %short = trunc i64 %length to i32
  %result = call i32 @_write(i32 1, ptr %text, i32 %short)
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
