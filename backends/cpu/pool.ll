; A pool of threads that run the workgroups of kernels. Python's threads call portable_work, which
; returns when the pool ends; a launch calls portable_run with the interpreter's lock held.
;
; Workgroups are handed out in ascending order by a counter, so that whoever waits for one of a lower
; number waits for one that has begun or that its own thread has done: any number of threads, the
; caller alone included, brings a launch to its end.
;
; A launch is published by its job and a new generation. A worker counts itself in before it reads
; the job, and the caller withdraws the job before it waits for the count to become 0: both in one
; order that all threads see, so that no worker holds on to a job that is gone.

%Pool = type {
  i32, i32, i64, i32, i32, [13 x i64],    ; 0 busy, 1 workers, 2 spin (ns), 3 stand-ins, 4 unused
  i32, i32, i32, i32, [14 x i64],         ; 6 generation, 7 ending, 8 sleepers, 9 unused
  ptr, [15 x i64],                        ; 11 job
  i64, [15 x i64],                        ; 13 next workgroup
  i32, i32, [15 x i64],                   ; 15 workers inside of the job, 16 whether they are waited for
  i32, i32, i32, i32, [14 x i64],         ; 18 generation of the stand-in, 19 stopped, 20 its sleepers,
                                          ; 21 how often the last worker left
  ptr, i64, [14 x i64],                   ; 23 the caller's room, 24 its bytes
  [16 x %Seat]                            ; 26 of the first workers
}

; Entry, workgroups, launch block, bytes of room, where the time of a workgroup is kept, flags; the
; arguments follow.
%Job = type { ptr, i64, [6 x i64], i64, ptr, i64 }

; Bits of a job's flags: workgroups wait for others, so that they are handed out one by one; the
; caller listens to Ctrl-C and leaves the work to others.
; Results: 0 done, 1 done, and threads would have helped, 2 no memory, 3 stopped by an exception,
; 4 the same, while workers are still inside.

@portable_pool = global ptr null

; A word that stays as it is, to sleep by.
@nobody = internal global i32 0

declare ptr @PyEval_SaveThread()
declare void @PyEval_RestoreThread(ptr)
declare i32 @PyErr_CheckSignals()

declare i32 @llvm.umin.i32(i32, i32)
declare i64 @llvm.umin.i64(i64, i64)
declare i64 @llvm.umax.i64(i64, i64)

; -- waiting ---------------------------------------------------------------------------------------

; What a kernel calls in each round of a loop that waits for another workgroup: now and then the
; processor is left to others, one of which that workgroup may have to run on, and after a long time
; for a moment whoever they are.
define void @portable_linger(i32 %round) {
entry:
  %part = and i32 %round, 1023
  %is.long = icmp eq i32 %part, 1023
  br i1 %is.long, label %leave, label %stay
leave:
  %is.longer = icmp ugt i32 %round, 16384
  br i1 %is.longer, label %sleep, label %give.way
give.way:
  call void @portable_give_way()
  ret void
sleep:
  call void @portable_wait(ptr @nobody, i32 0, i64 20000)
  ret void
stay:
  ret void
}

; -- workgroups ------------------------------------------------------------------------------------

; The next workgroups of the job, as (first, last); first is not below last if there are none. They
; are so few that they take some two milliseconds, by what the last ones took, since Ctrl-C waits for
; them; and no more than were handed out so far, and 16, since a launch may be unlike the last one.
define internal { i64, i64 } @take(ptr %pool, ptr %job) {
entry:
  %next.at = getelementptr %Pool, ptr %pool, i64 0, i32 13
  %stopped.at = getelementptr %Pool, ptr %pool, i64 0, i32 19
  %workers.at = getelementptr %Pool, ptr %pool, i64 0, i32 1
  %total.at = getelementptr %Job, ptr %job, i64 0, i32 1
  %flags.at = getelementptr %Job, ptr %job, i64 0, i32 5
  %times.at = getelementptr %Job, ptr %job, i64 0, i32 4
  %total = load i64, ptr %total.at
  %flags = load i64, ptr %flags.at
  %one.by.one = trunc i64 %flags to i1
  %times = load ptr, ptr %times.at
  %known = load atomic i64, ptr %times monotonic, align 8
  %each = call i64 @llvm.umax.i64(i64 %known, i64 1)
  %short = udiv i64 2000000, %each
  %workers = load i32, ptr %workers.at
  %wide = zext i32 %workers to i64
  %threads = add i64 %wide, 1
  %share = shl i64 %threads, 1
  %begin = load atomic i64, ptr %next.at monotonic, align 8
  br label %try
try:
  %next = phi i64 [ %begin, %entry ], [ %seen, %step ]
  %stopped = load atomic i32, ptr %stopped.at monotonic, align 4
  %is.stopped = icmp ne i32 %stopped, 0
  %is.over = icmp uge i64 %next, %total
  %none = or i1 %is.stopped, %is.over
  br i1 %none, label %nothing, label %step
step:
  %left = sub i64 %total, %next
  %part = udiv i64 %left, %share
  %growing = add i64 %next, 16
  %ramp = call i64 @llvm.umin.i64(i64 %part, i64 %growing)
  %brief = call i64 @llvm.umin.i64(i64 %ramp, i64 %short)
  %some = call i64 @llvm.umax.i64(i64 %brief, i64 1)
  %count = select i1 %one.by.one, i64 1, i64 %some
  %last = add i64 %next, %count
  %swap = cmpxchg ptr %next.at, i64 %next, i64 %last acq_rel monotonic, align 8
  %seen = extractvalue { i64, i1 } %swap, 0
  %won = extractvalue { i64, i1 } %swap, 1
  br i1 %won, label %got, label %try
got:
  %pair.first = insertvalue { i64, i64 } poison, i64 %next, 0
  %pair = insertvalue { i64, i64 } %pair.first, i64 %last, 1
  ret { i64, i64 } %pair
nothing:
  ret { i64, i64 } zeroinitializer
}

define internal void @call(ptr %job, i64 %first, i64 %last, ptr %room) alwaysinline {
  %entry = load ptr, ptr %job
  %launch = getelementptr i8, ptr %job, i64 16
  %arguments = getelementptr %Job, ptr %job, i64 1
  call void %entry(ptr %arguments, ptr %launch, i64 %first, i64 %last, ptr %room)
  ret void
}

; Keep what a workgroup took.
define internal void @learn(ptr %job, i64 %first, i64 %last, i64 %begin, i64 %end) {
  %times.at = getelementptr %Job, ptr %job, i64 0, i32 4
  %times = load ptr, ptr %times.at
  %count = sub i64 %last, %first
  %spent = sub i64 %end, %begin
  %mean = udiv i64 %spent, %count
  %positive = call i64 @llvm.umax.i64(i64 %mean, i64 1)
  %bounded = call i64 @llvm.umin.i64(i64 %positive, i64 1073741824)
  store atomic i64 %bounded, ptr %times monotonic, align 8
  ret void
}

; Make a room at least so large; whether there is one.
define internal i1 @grow(ptr %room.at, ptr %bytes.at, i64 %wanted) {
entry:
  %bytes = load i64, ptr %bytes.at
  %enough = icmp uge i64 %bytes, %wanted
  br i1 %enough, label %yes, label %more
more:
  %old = load ptr, ptr %room.at
  call void @portable_give_back(ptr %old)
  %new = call ptr @portable_take_memory(i64 %wanted)
  store ptr %new, ptr %room.at
  %failed = icmp eq ptr %new, null
  %now = select i1 %failed, i64 0, i64 %wanted
  store i64 %now, ptr %bytes.at
  br i1 %failed, label %no, label %yes
yes:
  ret i1 true
no:
  ret i1 false
}

; -- workers ---------------------------------------------------------------------------------------

; The share of one worker in the published job, if there is one.
define internal void @join(ptr %pool, ptr %room.at, ptr %bytes.at) {
entry:
  %job.at = getelementptr %Pool, ptr %pool, i64 0, i32 11
  %inside.at = getelementptr %Pool, ptr %pool, i64 0, i32 15
  %waited.at = getelementptr %Pool, ptr %pool, i64 0, i32 16
  %stopped.at = getelementptr %Pool, ptr %pool, i64 0, i32 19
  %came = atomicrmw add ptr %inside.at, i32 1 seq_cst, align 4
  %job = load atomic ptr, ptr %job.at seq_cst, align 8
  %nothing = icmp eq ptr %job, null
  br i1 %nothing, label %leave, label %prepare
prepare:
  %need.at = getelementptr %Job, ptr %job, i64 0, i32 3
  %need = load i64, ptr %need.at
  %able = call i1 @grow(ptr %room.at, ptr %bytes.at, i64 %need)
  br i1 %able, label %work, label %fail
fail:
  store atomic i32 2, ptr %stopped.at seq_cst, align 4
  br label %leave
work:
  %room = load ptr, ptr %room.at
  br label %loop
loop:
  %taken = call { i64, i64 } @take(ptr %pool, ptr %job)
  %first = extractvalue { i64, i64 } %taken, 0
  %last = extractvalue { i64, i64 } %taken, 1
  %some = icmp ult i64 %first, %last
  br i1 %some, label %run, label %leave
run:
  %begin = call i64 @portable_clock()
  call void @call(ptr %job, i64 %first, i64 %last, ptr %room)
  %end = call i64 @portable_clock()
  call void @learn(ptr %job, i64 %first, i64 %last, i64 %begin, i64 %end)
  br label %loop
leave:
  %were = atomicrmw sub ptr %inside.at, i32 1 seq_cst, align 4
  %was.last = icmp eq i32 %were, 1
  br i1 %was.last, label %look, label %done
look:
  %left.at = getelementptr %Pool, ptr %pool, i64 0, i32 21
  %left = atomicrmw add ptr %left.at, i32 1 seq_cst, align 4
  %waited = load atomic i32, ptr %waited.at seq_cst, align 4
  %is.waited = icmp ne i32 %waited, 0
  br i1 %is.waited, label %wake, label %done
wake:
  call void @portable_wake(ptr %left.at, i32 1)
  br label %done
done:
  ret void
}

; What a thread of the pool does until the pool ends. The first works where the caller listens and
; never spins; the others are workers.
define void @portable_work(ptr %pool, i32 %number) {
entry:
  %room = alloca ptr
  %bytes = alloca i64
  store ptr null, ptr %room
  store i64 0, ptr %bytes
  %stands.in = icmp eq i32 %number, 0
  %index = sub i32 %number, 1
  %has.seat = icmp ult i32 %index, 16
  %seats = getelementptr %Pool, ptr %pool, i64 0, i32 26
  %a.seat = getelementptr [16 x %Seat], ptr %seats, i64 0, i32 %index
  %spare = alloca %Seat
  store %Seat zeroinitializer, ptr %spare
  %seat = select i1 %has.seat, ptr %a.seat, ptr %spare
  call void @portable_sit(ptr %seat)
  %common.at = getelementptr %Pool, ptr %pool, i64 0, i32 6
  %own.at = getelementptr %Pool, ptr %pool, i64 0, i32 18
  %generation.at = select i1 %stands.in, ptr %own.at, ptr %common.at
  %common.sleepers = getelementptr %Pool, ptr %pool, i64 0, i32 8
  %own.sleepers = getelementptr %Pool, ptr %pool, i64 0, i32 20
  %sleepers.at = select i1 %stands.in, ptr %own.sleepers, ptr %common.sleepers
  %ending.at = getelementptr %Pool, ptr %pool, i64 0, i32 7
  %spin.at = getelementptr %Pool, ptr %pool, i64 0, i32 2
  br label %wait
wait:
  %seen = phi i32 [ 0, %entry ], [ %now, %joined ]
  %patience = load atomic i64, ptr %spin.at monotonic, align 8
  %mine = select i1 %stands.in, i64 0, i64 %patience
  %start = call i64 @portable_clock()
  br label %spin
spin:
  %rounds = phi i32 [ 0, %wait ], [ %more, %again ], [ 0, %look ]
  %spun = load atomic i32, ptr %generation.at acquire, align 4
  %is.new = icmp ne i32 %spun, %seen
  br i1 %is.new, label %begin, label %pause
pause:
  call void @portable_pause()
  %more = add i32 %rounds, 1
  %often = icmp ult i32 %more, 16
  br i1 %often, label %again, label %look
again:
  br label %spin
look:
  %time = call i64 @portable_clock()
  %passed = sub i64 %time, %start
  %early = icmp ult i64 %passed, %mine
  br i1 %early, label %spin, label %sleep
sleep:
  %asleep = atomicrmw add ptr %sleepers.at, i32 1 seq_cst, align 4
  call void @portable_wait(ptr %generation.at, i32 %seen, i64 -1)
  %awake = atomicrmw sub ptr %sleepers.at, i32 1 seq_cst, align 4
  call void @portable_rise(ptr %seat)
  %slept = load atomic i32, ptr %generation.at acquire, align 4
  %is.woken = icmp ne i32 %slept, %seen
  br i1 %is.woken, label %begin, label %sleep
begin:
  %now = phi i32 [ %spun, %spin ], [ %slept, %sleep ]
  %ending = load atomic i32, ptr %ending.at acquire, align 4
  %ends = icmp ne i32 %ending, 0
  br i1 %ends, label %end, label %joined
joined:
  call void @join(ptr %pool, ptr %room, ptr %bytes)
  br label %wait
end:
  %last.room = load ptr, ptr %room
  call void @portable_give_back(ptr %last.room)
  ret void
}

; -- callers ---------------------------------------------------------------------------------------

; Lets Python hear signals; gives the thread's state, and whether there is an exception now.
define internal { ptr, i1 } @hear(ptr %thread) noinline {
  call void @PyEval_RestoreThread(ptr %thread)
  %raised = call i32 @PyErr_CheckSignals()
  %again = call ptr @PyEval_SaveThread()
  %is.raised = icmp ne i32 %raised, 0
  %pair.first = insertvalue { ptr, i1 } poison, ptr %again, 0
  %pair = insertvalue { ptr, i1 } %pair.first, i1 %is.raised, 1
  ret { ptr, i1 } %pair
}

define internal void @publish(ptr %pool, ptr %job) {
  %job.at = getelementptr %Pool, ptr %pool, i64 0, i32 11
  %generation.at = getelementptr %Pool, ptr %pool, i64 0, i32 6
  store atomic ptr %job, ptr %job.at seq_cst, align 8
  %before = atomicrmw add ptr %generation.at, i32 1 seq_cst, align 4
  ret void
}

; Wakes workers that sleep, no more than there are further workgroups.
define internal void @rouse(ptr %pool, i64 %groups) {
entry:
  %generation.at = getelementptr %Pool, ptr %pool, i64 0, i32 6
  %workers.at = getelementptr %Pool, ptr %pool, i64 0, i32 1
  %seats = getelementptr %Pool, ptr %pool, i64 0, i32 26
  %sleepers.at = getelementptr %Pool, ptr %pool, i64 0, i32 8
  %sleepers = load atomic i32, ptr %sleepers.at seq_cst, align 4
  %any = icmp ne i32 %sleepers, 0
  br i1 %any, label %wake, label %done
wake:
  %workers = load i32, ptr %workers.at
  %seated = call i32 @llvm.umin.i32(i32 %workers, i32 16)
  call void @portable_keep_off(ptr %seats, i32 %seated)
  %bounded = call i64 @llvm.umin.i64(i64 %groups, i64 65536)
  %count = trunc i64 %bounded to i32
  call void @portable_wake(ptr %generation.at, i32 %count)
  br label %done
done:
  ret void
}

; Waits until all workgroups are taken or stopped, withdraws the job, and waits until all are done.
; Gives the thread's state, and whether an exception came first, in which case workers are inside.
define internal { ptr, i1 } @finish(ptr %pool, ptr %job, ptr %thread) {
entry:
  %job.at = getelementptr %Pool, ptr %pool, i64 0, i32 11
  %next.at = getelementptr %Pool, ptr %pool, i64 0, i32 13
  %inside.at = getelementptr %Pool, ptr %pool, i64 0, i32 15
  %waited.at = getelementptr %Pool, ptr %pool, i64 0, i32 16
  %stopped.at = getelementptr %Pool, ptr %pool, i64 0, i32 19
  %spin.at = getelementptr %Pool, ptr %pool, i64 0, i32 2
  %left.at = getelementptr %Pool, ptr %pool, i64 0, i32 21
  %total.at = getelementptr %Job, ptr %job, i64 0, i32 1
  %total = load i64, ptr %total.at
  %patience = load atomic i64, ptr %spin.at monotonic, align 8
  %start = call i64 @portable_clock()
  br label %look
look:
  %state = phi ptr [ %thread, %entry ], [ %state, %pause ], [ %state, %still ], [ %heard.state, %hearing ]
  %rounds = phi i32 [ 0, %entry ], [ %more, %pause ], [ 0, %still ], [ 0, %hearing ]
  %next = load atomic i64, ptr %next.at acquire, align 8
  %stopped = load atomic i32, ptr %stopped.at acquire, align 4
  %is.stopped = icmp ne i32 %stopped, 0
  %is.taken = icmp uge i64 %next, %total
  %is.over = or i1 %is.stopped, %is.taken
  br i1 %is.over, label %withdraw, label %wait
withdraw:
  store atomic ptr null, ptr %job.at seq_cst, align 8
  %inside = load atomic i32, ptr %inside.at seq_cst, align 4
  %is.empty = icmp eq i32 %inside, 0
  br i1 %is.empty, label %done, label %wait
wait:
  %more = add i32 %rounds, 1
  %often = icmp ult i32 %more, 16
  br i1 %often, label %pause, label %time
pause:
  call void @portable_pause()
  br label %look
time:
  %now = call i64 @portable_clock()
  %passed = sub i64 %now, %start
  %early = icmp ult i64 %passed, %patience
  br i1 %early, label %still, label %sleep
still:
  br label %look
sleep:
  store atomic i32 1, ptr %waited.at seq_cst, align 4
  %epoch = load atomic i32, ptr %left.at seq_cst, align 4
  %count = load atomic i32, ptr %inside.at seq_cst, align 4
  %then = load atomic i64, ptr %next.at seq_cst, align 8
  %all.taken = icmp uge i64 %then, %total
  %nobody = icmp eq i32 %count, 0
  %over.now = and i1 %all.taken, %nobody
  br i1 %over.now, label %woken, label %doze
doze:
  call void @portable_wait(ptr %left.at, i32 %epoch, i64 50000000)
  br label %woken
woken:
  store atomic i32 0, ptr %waited.at seq_cst, align 4
  br label %hearing
hearing:
  %heard = call { ptr, i1 } @hear(ptr %state)
  %heard.state = extractvalue { ptr, i1 } %heard, 0
  %raised = extractvalue { ptr, i1 } %heard, 1
  br i1 %raised, label %interrupted, label %look
interrupted:
  store atomic i32 1, ptr %stopped.at seq_cst, align 4
  store atomic ptr null, ptr %job.at seq_cst, align 8
  br label %done
done:
  %last.state = phi ptr [ %state, %withdraw ], [ %heard.state, %interrupted ]
  %is.raised = phi i1 [ false, %withdraw ], [ true, %interrupted ]
  %pair.first = insertvalue { ptr, i1 } poison, ptr %last.state, 0
  %pair = insertvalue { ptr, i1 } %pair.first, i1 %is.raised, 1
  ret { ptr, i1 } %pair
}

; A launch by one thread, while another has the pool, with a room that is given back.
define internal i32 @alone(ptr %job, ptr %thread) {
entry:
  %total.at = getelementptr %Job, ptr %job, i64 0, i32 1
  %total = load i64, ptr %total.at
  %need.at = getelementptr %Job, ptr %job, i64 0, i32 3
  %need = load i64, ptr %need.at
  %needs = icmp ne i64 %need, 0
  br i1 %needs, label %furnish, label %ready
furnish:
  %made = call ptr @portable_take_memory(i64 %need)
  %failed = icmp eq ptr %made, null
  br i1 %failed, label %poor, label %ready
poor:
  call void @PyEval_RestoreThread(ptr %thread)
  ret i32 2
ready:
  %room = phi ptr [ null, %entry ], [ %made, %furnish ]
  %times.at = getelementptr %Job, ptr %job, i64 0, i32 4
  %times = load ptr, ptr %times.at
  %begin = call i64 @portable_clock()
  br label %loop
loop:
  %first = phi i64 [ 0, %ready ], [ %last, %quiet ], [ %last, %listen ]
  %ended = phi i64 [ %begin, %ready ], [ %now, %quiet ], [ %now, %listen ]
  %checked = phi i64 [ %begin, %ready ], [ %checked, %quiet ], [ %now, %listen ]
  %state = phi ptr [ %thread, %ready ], [ %state, %quiet ], [ %heard.state, %listen ]
  %is.over = icmp uge i64 %first, %total
  br i1 %is.over, label %done, label %run
run:
  %known = load atomic i64, ptr %times monotonic, align 8
  %each = call i64 @llvm.umax.i64(i64 %known, i64 1)
  %short = udiv i64 2000000, %each
  %growing = add i64 %first, 16
  %brief = call i64 @llvm.umin.i64(i64 %short, i64 %growing)
  %count = call i64 @llvm.umax.i64(i64 %brief, i64 1)
  %end = add i64 %first, %count
  %last = call i64 @llvm.umin.i64(i64 %end, i64 %total)
  call void @call(ptr %job, i64 %first, i64 %last, ptr %room)
  %now = call i64 @portable_clock()
  call void @learn(ptr %job, i64 %first, i64 %last, i64 %ended, i64 %now)
  %passed = sub i64 %now, %checked
  %is.late = icmp ugt i64 %passed, 50000000
  br i1 %is.late, label %listen, label %quiet
quiet:
  br label %loop
listen:
  %heard = call { ptr, i1 } @hear(ptr %state)
  %heard.state = extractvalue { ptr, i1 } %heard, 0
  %raised = extractvalue { ptr, i1 } %heard, 1
  br i1 %raised, label %done, label %loop
done:
  %result = phi i32 [ 0, %loop ], [ 3, %listen ]
  %last.state = phi ptr [ %state, %loop ], [ %heard.state, %listen ]
  call void @portable_give_back(ptr %room)
  call void @PyEval_RestoreThread(ptr %last.state)
  ret i32 %result
}

; A launch whose caller leaves the work to others, so that it hears Ctrl-C at once.
define internal i32 @listening(ptr %pool, ptr %job, ptr %thread) {
entry:
  %busy.at = getelementptr %Pool, ptr %pool, i64 0, i32 0
  %next.at = getelementptr %Pool, ptr %pool, i64 0, i32 13
  %own.at = getelementptr %Pool, ptr %pool, i64 0, i32 18
  %stopped.at = getelementptr %Pool, ptr %pool, i64 0, i32 19
  %total.at = getelementptr %Job, ptr %job, i64 0, i32 1
  %total = load i64, ptr %total.at
  store atomic i64 0, ptr %next.at monotonic, align 8
  call void @publish(ptr %pool, ptr %job)
  %before = atomicrmw add ptr %own.at, i32 1 seq_cst, align 4
  call void @portable_wake(ptr %own.at, i32 1)
  %others = sub i64 %total, 1
  call void @rouse(ptr %pool, i64 %others)
  %finished = call { ptr, i1 } @finish(ptr %pool, ptr %job, ptr %thread)
  %state = extractvalue { ptr, i1 } %finished, 0
  %raised = extractvalue { ptr, i1 } %finished, 1
  br i1 %raised, label %interrupted, label %done
interrupted:
  call void @PyEval_RestoreThread(ptr %state)
  ret i32 4
done:
  %stopped = load i32, ptr %stopped.at
  store i32 0, ptr %stopped.at
  store atomic i32 0, ptr %busy.at release, align 4
  call void @PyEval_RestoreThread(ptr %state)
  ret i32 %stopped
}

; Runs a job to its end; the interpreter's lock is held on entry and on return.
define i32 @portable_run(ptr %job) {
entry:
  %pool = load ptr, ptr @portable_pool
  %thread = call ptr @PyEval_SaveThread()
  %total.at = getelementptr %Job, ptr %job, i64 0, i32 1
  %need.at = getelementptr %Job, ptr %job, i64 0, i32 3
  %flags.at = getelementptr %Job, ptr %job, i64 0, i32 5
  %total = load i64, ptr %total.at
  %need = load i64, ptr %need.at
  %flags = load i64, ptr %flags.at
  %bit = and i64 %flags, 2
  %listens = icmp ne i64 %bit, 0
  %single = icmp eq i64 %total, 1
  %bare = icmp eq i64 %need, 0
  %is.simple = and i1 %single, %bare
  %not.listening = xor i1 %listens, true
  %is.plain = and i1 %is.simple, %not.listening
  br i1 %is.plain, label %plain, label %lock
plain:
  call void @call(ptr %job, i64 0, i64 1, ptr null)
  call void @PyEval_RestoreThread(ptr %thread)
  ret i32 0
lock:
  %busy.at = getelementptr %Pool, ptr %pool, i64 0, i32 0
  %swap = cmpxchg ptr %busy.at, i32 0, i32 1 acquire monotonic, align 4
  %free = extractvalue { i32, i1 } %swap, 1
  br i1 %free, label %locked, label %crowded
crowded:
  %by.itself = call i32 @alone(ptr %job, ptr %thread)
  ret i32 %by.itself
locked:
  %stand.ins.at = getelementptr %Pool, ptr %pool, i64 0, i32 3
  %stand.ins = load i32, ptr %stand.ins.at
  %has.stand.in = icmp ne i32 %stand.ins, 0
  %may.listen = and i1 %listens, %has.stand.in
  br i1 %may.listen, label %listen, label %furnish
listen:
  %listened = call i32 @listening(ptr %pool, ptr %job, ptr %thread)
  ret i32 %listened
furnish:
  %room.at = getelementptr %Pool, ptr %pool, i64 0, i32 23
  %bytes.at = getelementptr %Pool, ptr %pool, i64 0, i32 24
  %able = call i1 @grow(ptr %room.at, ptr %bytes.at, i64 %need)
  br i1 %able, label %ready, label %poor
poor:
  store atomic i32 0, ptr %busy.at release, align 4
  call void @PyEval_RestoreThread(ptr %thread)
  ret i32 2
ready:
  %room = load ptr, ptr %room.at
  br i1 %single, label %one, label %many
one:
  call void @call(ptr %job, i64 0, i64 1, ptr %room)
  store atomic i32 0, ptr %busy.at release, align 4
  call void @PyEval_RestoreThread(ptr %thread)
  ret i32 0
many:
  %result = call i32 @share(ptr %pool, ptr %job, ptr %thread, ptr %room)
  ret i32 %result
}

; A launch of several workgroups, by the caller and whoever is there to help. Others are called in
; where the last launches tell that it pays, or once it has taken long enough by itself.
define internal i32 @share(ptr %pool, ptr %job, ptr %thread, ptr %room) {
entry:
  %busy.at = getelementptr %Pool, ptr %pool, i64 0, i32 0
  %next.at = getelementptr %Pool, ptr %pool, i64 0, i32 13
  %stopped.at = getelementptr %Pool, ptr %pool, i64 0, i32 19
  %workers.at = getelementptr %Pool, ptr %pool, i64 0, i32 1
  %total.at = getelementptr %Job, ptr %job, i64 0, i32 1
  %times.at = getelementptr %Job, ptr %job, i64 0, i32 4
  %total = load i64, ptr %total.at
  %others = sub i64 %total, 1
  %times = load ptr, ptr %times.at
  %each = load atomic i64, ptr %times monotonic, align 8
  %expected = mul i64 %each, %total
  %unknown = icmp eq i64 %each, 0
  %worth = icmp ugt i64 %expected, 4000
  %well.worth = icmp ugt i64 %expected, 15000
  %shares = or i1 %unknown, %worth
  %wakes = or i1 %unknown, %well.worth
  %workers = load i32, ptr %workers.at
  %has.workers = icmp ne i32 %workers, 0
  store atomic i64 0, ptr %next.at monotonic, align 8
  %start = call i64 @portable_clock()
  %publishes = and i1 %shares, %has.workers
  br i1 %publishes, label %offer, label %loop
offer:
  call void @publish(ptr %pool, ptr %job)
  br i1 %wakes, label %call.others, label %loop
call.others:
  call void @rouse(ptr %pool, i64 %others)
  br label %loop
loop:
  %level = phi i32 [ 0, %entry ], [ 1, %offer ], [ 2, %call.others ], [ %level, %go.on ], [ %risen, %called ], [ %level, %listen ]
  %state = phi ptr [ %thread, %entry ], [ %thread, %offer ], [ %thread, %call.others ], [ %state, %go.on ], [ %state, %called ], [ %heard.state, %listen ]
  %checked = phi i64 [ %start, %entry ], [ %start, %offer ], [ %start, %call.others ], [ %checked, %go.on ], [ %checked, %called ], [ %now, %listen ]
  %ended = phi i64 [ %start, %entry ], [ %start, %offer ], [ %start, %call.others ], [ %now, %go.on ], [ %now, %called ], [ %now, %listen ]
  %taken = call { i64, i64 } @take(ptr %pool, ptr %job)
  %first = extractvalue { i64, i64 } %taken, 0
  %last = extractvalue { i64, i64 } %taken, 1
  %some = icmp ult i64 %first, %last
  br i1 %some, label %run, label %over
run:
  call void @call(ptr %job, i64 %first, i64 %last, ptr %room)
  %now = call i64 @portable_clock()
  call void @learn(ptr %job, i64 %first, i64 %last, i64 %ended, i64 %now)
  %passed = sub i64 %now, %start
  %is.long = icmp ugt i64 %passed, 10000
  %is.unheard = icmp ult i32 %level, 2
  %rises = and i1 %is.long, %is.unheard
  %may.rise = and i1 %rises, %has.workers
  br i1 %may.rise, label %rise, label %time
rise:
  %unpublished = icmp eq i32 %level, 0
  br i1 %unpublished, label %late, label %called
late:
  call void @publish(ptr %pool, ptr %job)
  br label %called
called:
  %risen = phi i32 [ 2, %rise ], [ 2, %late ]
  call void @rouse(ptr %pool, i64 %others)
  br label %loop
time:
  %unchecked = sub i64 %now, %checked
  %is.late = icmp ugt i64 %unchecked, 50000000
  br i1 %is.late, label %listen, label %go.on
go.on:
  br label %loop
listen:
  %heard = call { ptr, i1 } @hear(ptr %state)
  %heard.state = extractvalue { ptr, i1 } %heard, 0
  %raised = extractvalue { ptr, i1 } %heard, 1
  br i1 %raised, label %interrupted, label %loop
interrupted:
  store atomic i32 1, ptr %stopped.at seq_cst, align 4
  %job.at = getelementptr %Pool, ptr %pool, i64 0, i32 11
  store atomic ptr null, ptr %job.at seq_cst, align 8
  call void @PyEval_RestoreThread(ptr %heard.state)
  ret i32 4
over:
  %was.shared = icmp ne i32 %level, 0
  br i1 %was.shared, label %wait, label %close
wait:
  %finished = call { ptr, i1 } @finish(ptr %pool, ptr %job, ptr %state)
  %last.state = extractvalue { ptr, i1 } %finished, 0
  %broken = extractvalue { ptr, i1 } %finished, 1
  br i1 %broken, label %left, label %close
left:
  call void @PyEval_RestoreThread(ptr %last.state)
  ret i32 4
close:
  %end.state = phi ptr [ %state, %over ], [ %last.state, %wait ]
  %stopped = load i32, ptr %stopped.at
  store i32 0, ptr %stopped.at
  store atomic i32 0, ptr %busy.at release, align 4
  call void @PyEval_RestoreThread(ptr %end.state)
  %missed = xor i1 %has.workers, true
  %whole = icmp eq i32 %stopped, 0
  %wanted = and i1 %missed, %well.worth
  %tells = and i1 %wanted, %whole
  %result = select i1 %tells, i32 1, i32 %stopped
  ret i32 %result
}
