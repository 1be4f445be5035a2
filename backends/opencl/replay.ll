; Enqueues the launches that were captured, in a queue and one beside it.
;
; A step is a launch here (0) or beside (1), the beginning of what is beside (2), or the wait for it (3).

%Step = type { i64, ptr, [3 x i64], [3 x i64] }          ; what it is, kernel, ndrange, workgroup
%Driver = type { ptr, ptr, ptr, ptr, ptr }  ; enqueue a kernel, a marker, a barrier; flush, release

define i32 @portable_replay(ptr %driver, ptr %steps, i64 %count, ptr %here, ptr %beside) {
begin:
  %enqueue = load ptr, ptr %driver
  br label %check
check:
  %number = phi i64 [ 0, %begin ], [ %next, %done ]
  %ended = icmp eq i64 %number, %count
  br i1 %ended, label %success, label %step
step:
  %at = getelementptr %Step, ptr %steps, i64 %number
  %kind = load i64, ptr %at
  switch i64 %kind, label %launch [ i64 2, label %fork  i64 3, label %join ]
launch:
  %is_here = icmp eq i64 %kind, 0
  %queue = select i1 %is_here, ptr %here, ptr %beside
  %kernel_at = getelementptr %Step, ptr %at, i64 0, i32 1
  %kernel = load ptr, ptr %kernel_at
  %ndrange = getelementptr %Step, ptr %at, i64 0, i32 2
  %workgroup = getelementptr %Step, ptr %at, i64 0, i32 3
  %launched = call i32 %enqueue(ptr %queue, ptr %kernel, i32 3, ptr null, ptr %ndrange, ptr %workgroup, i32 0, ptr null, ptr null)
  br label %done
fork:
  %forked = call i32 @follow(ptr %driver, ptr %here, ptr %beside)
  br label %done
join:
  %joined = call i32 @follow(ptr %driver, ptr %beside, ptr %here)
  br label %done
done:
  %status = phi i32 [ %launched, %launch ], [ %forked, %fork ], [ %joined, %join ]
  %next = add i64 %number, 1
  %failed = icmp ne i32 %status, 0
  br i1 %failed, label %failure, label %check
success:
  ret i32 0
failure:
  ret i32 %status
}

; Has a queue wait for what another holds, which is given to the device.
define private i32 @follow(ptr %driver, ptr %first, ptr %second) {
begin:
  %event_at = alloca ptr
  %marker_at = getelementptr %Driver, ptr %driver, i64 0, i32 1
  %barrier_at = getelementptr %Driver, ptr %driver, i64 0, i32 2
  %flush_at = getelementptr %Driver, ptr %driver, i64 0, i32 3
  %release_at = getelementptr %Driver, ptr %driver, i64 0, i32 4
  %marker = load ptr, ptr %marker_at
  %barrier = load ptr, ptr %barrier_at
  %flush = load ptr, ptr %flush_at
  %release = load ptr, ptr %release_at
  %marked = call i32 %marker(ptr %first, i32 0, ptr null, ptr %event_at)
  %failed = icmp ne i32 %marked, 0
  br i1 %failed, label %failure, label %wait
wait:
  %flushed = call i32 %flush(ptr %first)
  %waited = call i32 %barrier(ptr %second, i32 1, ptr %event_at, ptr null)
  %event = load ptr, ptr %event_at
  %released = call i32 %release(ptr %event)
  ret i32 %waited
failure:
  ret i32 %marked
}
