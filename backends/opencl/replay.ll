; Enqueues launches in a queue and one beside it.
;
; A job is the addresses of OpenCL's functions, the number of steps, and these. A step is a launch, or
; a barrier where it has no kernel, in the one queue or the other (1), which may have what comes next
; in the other one wait for it (2).

%Step = type { i64, ptr, [3 x i64], [3 x i64] }       ; what it is, kernel, ndrange, workgroup
%Job = type { ptr, ptr, ptr, ptr, i64, [0 x %Step] }  ; enqueue a kernel, a barrier; flush, release

define internal void @let_go(ptr %at, ptr %release) {  ; of an event, if there is one
  %event = load ptr, ptr %at
  %none = icmp eq ptr %event, null
  br i1 %none, label %done, label %held
held:
  %released = call i32 %release(ptr %event)
  store ptr null, ptr %at
  br label %done
done:
  ret void
}

define i32 @portable_enqueue(ptr %job, ptr %queue, ptr %beside) {
begin:
  %queues = alloca [2 x ptr]
  %events = alloca [2 x ptr]  ; what the next step in a queue waits for
  %second = getelementptr ptr, ptr %queues, i64 1
  store ptr %queue, ptr %queues
  store ptr %beside, ptr %second
  %beside_waits = getelementptr ptr, ptr %events, i64 1
  store [2 x ptr] zeroinitializer, ptr %events
  %enqueue = load ptr, ptr %job
  %barrier_at = getelementptr %Job, ptr %job, i64 0, i32 1
  %barrier = load ptr, ptr %barrier_at
  %flush_at = getelementptr %Job, ptr %job, i64 0, i32 2
  %flush = load ptr, ptr %flush_at
  %release_at = getelementptr %Job, ptr %job, i64 0, i32 3
  %release = load ptr, ptr %release_at
  %count_at = getelementptr %Job, ptr %job, i64 0, i32 4
  %count = load i64, ptr %count_at
  br label %check
check:
  %number = phi i64 [ 0, %begin ], [ %next, %done ]
  %so_far = phi i32 [ 0, %begin ], [ %status, %done ]
  %failed = icmp ne i32 %so_far, 0
  %last = icmp eq i64 %number, %count
  %ended = or i1 %failed, %last
  br i1 %ended, label %end, label %step
step:
  %at = getelementptr %Job, ptr %job, i64 0, i32 5, i64 %number
  %what = load i64, ptr %at
  %side = and i64 %what, 1
  %other = xor i64 %side, 1
  %queue_at = getelementptr ptr, ptr %queues, i64 %side
  %in = load ptr, ptr %queue_at
  %first_at = getelementptr ptr, ptr %events, i64 %side
  %first = load ptr, ptr %first_at
  %waits = icmp ne ptr %first, null
  %waited = zext i1 %waits to i32
  %list = select i1 %waits, ptr %first_at, ptr null
  %gives = icmp uge i64 %what, 2
  %given_at = getelementptr ptr, ptr %events, i64 %other
  %given = select i1 %gives, ptr %given_at, ptr null
  %kernel_at = getelementptr %Step, ptr %at, i64 0, i32 1
  %kernel = load ptr, ptr %kernel_at
  %launches = icmp ne ptr %kernel, null
  br i1 %gives, label %anew, label %enqueue_one
anew:  ; what the other queue was to wait for so far came before this one
  call void @let_go(ptr %given_at, ptr %release)
  br label %enqueue_one
enqueue_one:
  br i1 %launches, label %launch, label %wait
launch:
  %ndrange = getelementptr %Step, ptr %at, i64 0, i32 2
  %workgroup = getelementptr %Step, ptr %at, i64 0, i32 3
  %launched = call i32 %enqueue(ptr %in, ptr %kernel, i32 3, ptr null, ptr %ndrange, ptr %workgroup, i32 %waited, ptr %list, ptr %given)
  br label %enqueued
wait:
  %held = call i32 %barrier(ptr %in, i32 %waited, ptr %list, ptr %given)
  br label %enqueued
enqueued:
  %status = phi i32 [ %launched, %launch ], [ %held, %wait ]
  call void @let_go(ptr %first_at, ptr %release)
  br i1 %gives, label %submit, label %done
submit:
  %flushed = call i32 %flush(ptr %in)
  br label %done
done:
  %next = add i64 %number, 1
  br label %check
end:
  call void @let_go(ptr %events, ptr %release)
  call void @let_go(ptr %beside_waits, ptr %release)
  ret i32 %so_far
}
