; What the pool asks of Linux.

; A worker: its thread, whether it was kept off a processor as it was woken, and those it may be on.
%Seat = type { i64, i64, [14 x i64], [16 x i64] }

declare i64 @syscall(i64, ...)
declare i32 @clock_gettime(i32, ptr)
declare i32 @posix_memalign(ptr, i64, i64)
declare void @free(ptr)
declare i64 @write(i32, ptr, i64)
declare i32 @sched_getcpu()
declare i32 @sched_yield()
declare i64 @pthread_self()
declare i32 @pthread_getaffinity_np(i64, i64, ptr)
declare i32 @pthread_setaffinity_np(i64, i64, ptr)

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

; Leaves the processor to another thread that is ready to run, if there is one.
define internal void @portable_give_way() {
  %result = call i32 @sched_yield()
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

define internal void @portable_sit(ptr %seat) {
  %thread = call i64 @pthread_self()
  store atomic i64 %thread, ptr %seat release, align 8
  ret void
}

; A worker that was woken may be on any of its processors again.
define internal void @portable_rise(ptr %seat) {
entry:
  %kept.at = getelementptr %Seat, ptr %seat, i64 0, i32 1
  %kept = load atomic i64, ptr %kept.at acquire, align 8
  %is.kept = icmp ne i64 %kept, 0
  br i1 %is.kept, label %free, label %done
free:
  %thread = load i64, ptr %seat
  %mask = getelementptr %Seat, ptr %seat, i64 0, i32 3
  %result = call i32 @pthread_setaffinity_np(i64 %thread, i64 128, ptr %mask)
  store atomic i64 0, ptr %kept.at release, align 8
  br label %done
done:
  ret void
}

; Has workers wake elsewhere than on the caller's processor, where Linux wakes them if it does not see
; that others are idle, as those of virtual machines: it takes milliseconds to see that two threads
; run in turns there.
define internal void @portable_keep_off(ptr %seats, i32 %count) {
entry:
  %number = call i32 @sched_getcpu()
  %is.told = icmp ult i32 %number, 64
  br i1 %is.told, label %begin, label %done
begin:
  %shift = zext i32 %number to i64
  %here = shl i64 1, %shift
  br label %look
look:
  %index = phi i32 [ 0, %begin ], [ %next, %step ]
  %over = icmp eq i32 %index, %count
  br i1 %over, label %done, label %compare
compare:
  %seat = getelementptr %Seat, ptr %seats, i32 %index
  %kept.at = getelementptr %Seat, ptr %seat, i64 0, i32 1
  %thread = load atomic i64, ptr %seat acquire, align 8
  %kept = load atomic i64, ptr %kept.at acquire, align 8
  %is.seated = icmp ne i64 %thread, 0
  %is.free = icmp eq i64 %kept, 0
  %changes = and i1 %is.seated, %is.free
  br i1 %changes, label %change, label %step
change:
  call void @keep_off_one(ptr %seat, i64 %here)
  br label %step
step:
  %next = add i32 %index, 1
  br label %look
done:
  ret void
}

; The system refuses to leave a thread no processor, which changes nothing.
define internal void @keep_off_one(ptr %seat, i64 %here) {
entry:
  %rest = alloca [16 x i64]
  %mask = getelementptr %Seat, ptr %seat, i64 0, i32 3
  %thread = load i64, ptr %seat
  %failed = call i32 @pthread_getaffinity_np(i64 %thread, i64 128, ptr %mask)
  %told = icmp eq i32 %failed, 0
  %first = load i64, ptr %mask
  %both = and i64 %first, %here
  %may.be.here = icmp ne i64 %both, 0
  %changes = and i1 %told, %may.be.here
  br i1 %changes, label %change, label %done
change:
  %all = load [16 x i64], ptr %mask
  store [16 x i64] %all, ptr %rest
  %others = xor i64 %first, %here
  store i64 %others, ptr %rest
  %refused = call i32 @pthread_setaffinity_np(i64 %thread, i64 128, ptr %rest)
  %kept.at = getelementptr %Seat, ptr %seat, i64 0, i32 1
  store atomic i64 1, ptr %kept.at release, align 8
  br label %done
done:
  ret void
}
