package java.util.concurrent;

import java.lang.ref.ReferenceQueue;
import java.lang.ref.WeakReference;
import java.nio.ByteOrder;
import java.nio.MappedByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayDeque;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.Supplier;

/**
 * What the JDK's executors call once Wakepath's agent changed them: keeps, for each thread, which task of an executor it runs, and what
 * made that, in memory that is read from outside. It is of this package so that it may call what it stands before.
 *
 * A task gets a maker only where it is certain who asked for it: what somebody makes a future of, or wants done when one is there, is
 * wanted by who does so. Whom `execute` is called by may only be the one that set a queue going which holds others' work,
 * and so may be who makes a future of such a thing. So `execute` tells no maker, and no maker is told of tasks that give no value, nor of a
 * class of which one was given by two tasks, or by a task of the same class; nor before eight others were seen.
 */
public final class WakepathTasks {
    /** Where what is in the words: see the constants {@code JVM_...} in crates/wire. */
    private static final int THREADS = 1 << 22;
    private static final int TABLE = 4096;
    private static final int SLOT_BYTES = 256;
    private static final int SLOTS = TABLE + 4 * THREADS;
    private static final int SLOTS_MAX = 1 << 16;
    private static final int OTHERS = SLOTS + SLOT_BYTES * SLOTS_MAX;
    public static final int BYTES = OTHERS + WakepathTasksOthers.BYTES;
    public static final long MAGIC_0 = 0x4be3905ad17c26f8L;
    public static final long MAGIC_1 = 0xa95d0e73c2481fb6L;
    public static final int LAYOUT = 1;
    private static final int AT_LAYOUT = 16;
    private static final int AT_PROCESS = 20;
    private static final int AT_OTHERS = 24;
    private static final int AT_THREAD = 0;
    private static final int AT_ID = 8;
    private static final int AT_BORN = 16;
    private static final int AT_MAKERS = 24;
    private static final int MAKERS_MAX = 7;
    private static final int AT_MAKERS_BORN = AT_MAKERS + 8 * MAKERS_MAX;

    /** Distinct tasks of a class that must have been submitted before a maker of one is told. */
    private static final int HABIT_MIN = 8;

    private static final AtomicLong LAST = new AtomicLong(1L << 48);
    private static final Class<?> VIRTUAL = ofJdk("java.lang.BaseVirtualThread");
    /** Threads that run virtual ones. */
    private static final Class<?> CARRIER = ofJdk("jdk.internal.misc.CarrierThread");
    private static final ThreadLocal<Mine> MINE = new ThreadLocal<>();
    private static final ReferenceQueue<Thread> GONE = new ReferenceQueue<>();
    private static final ArrayDeque<Integer> FREE = new ArrayDeque<>();
    private static int slots = 1;

    private static MappedByteBuffer words;
    private static volatile WakepathTasksOthers others;
    private static volatile boolean active;
    /** How often it began. */
    private static volatile int turn;

    private WakepathTasks() {}

    /** Begins, with memory of {@link #BYTES} zeros; or goes on with that which it has. */
    public static synchronized void begin(MappedByteBuffer memory, int process) {
        if (words == null) {
            words = memory;
            words.order(ByteOrder.nativeOrder());
            words.putLong(0, MAGIC_0);
            words.putLong(8, MAGIC_1);
            words.putInt(AT_PROCESS, process);
            others = new WakepathTasksOthers(words, AT_OTHERS, OTHERS);
        }
        // what threads ran when it ended is not what they run now
        turn++;
        for (int slot = 1; slot < slots; slot++) words.putLong(SLOTS + SLOT_BYTES * slot + AT_ID, 0);
        WakepathTasksContext.forget();
        active = true;
        words.putInt(AT_LAYOUT, LAYOUT);
    }

    /** Whether it began once: then it has its memory. */
    public static synchronized boolean hasMemory() {
        return words != null;
    }

    /** Ends: nothing is told any more. */
    public static synchronized void end() {
        active = false;
        if (words != null) words.putInt(AT_LAYOUT, 0);
    }

    // ---------------------------------------------------------------- called by what was changed

    /** Somebody makes a future of a task, or wants something done when a future is there. */
    public static void wanted(Object task) {
        if (!active || task == null) return;
        try {
            Task current = current();
            if (current != null) want(task, current);
        } catch (Throwable e) {
            // the program goes on as if there were no agent
        }
    }

    /** In the place of {@code executor.execute(task)}, where {@link CompletableFuture} has it done for who asks for it. */
    public static void execute(Executor executor, Runnable task) {
        wanted(task);
        executor.execute(task);
    }

    /** A thread of a pool begins a task. A class that overrides this calls the one that it overrides, too. */
    public static void begins(Object task) {
        Mine mine = mine();
        if (mine == null || task == null || mine.begun == task) return;
        mine.begun = task;
        mine.enter(mine.made(task));
    }

    /** A thread of a pool is between tasks. */
    public static void ends() {
        Mine mine = mine();
        if (mine == null) return;
        mine.begun = mine.taken = null;
        if (mine.current != null) mine.enter(null);
    }

    /** In the place of {@code task.run()}: of what somebody wanted, for that one, whoever's thread it is. */
    public static void run(Runnable task) {
        Mine mine = mine();
        Task before = mine == null ? null : mine.current, made = mine == null ? null : mine.wantedBy(task);
        if (made == null) {
            task.run();
            return;
        }
        mine.enter(made);
        try {
            task.run();
        } finally {
            mine.enter(before);
        }
    }

    /** In the place of {@code task.get()}: the same. */
    public static Object get(Supplier<?> task) {
        Mine mine = mine();
        Task before = mine == null ? null : mine.current, made = mine == null ? null : mine.wantedBy(task);
        if (made == null) return task.get();
        mine.enter(made);
        try {
            return task.get();
        } finally {
            mine.enter(before);
        }
    }

    /** In the place of {@code task.call()}: the same. */
    public static Object call(Callable<?> task) throws Exception {
        Mine mine = mine();
        Task before = mine == null ? null : mine.current, made = mine == null ? null : mine.wantedBy(task);
        if (made == null) return task.call();
        mine.enter(made);
        try {
            return task.call();
        } finally {
            mine.enter(before);
        }
    }

    /** In the place of {@code task.run()}, where a pool has no method between its tasks. */
    public static void runs(Runnable task) {
        Mine mine = mine();
        if (mine == null || task == null) {
            task.run();
            return;
        }
        Task before = mine.current;
        mine.enter(mine.made(task));
        try {
            task.run();
        } finally {
            mine.enter(before);
        }
    }

    /** In the place of {@code task.exec()}. */
    public static boolean exec(ForkJoinTask<?> task) {
        Mine mine = mine();
        if (mine == null) return task.exec();
        Task before = mine.current;
        mine.enter(mine.made(task));
        try {
            return task.exec();
        } finally {
            mine.enter(before);
        }
    }

    /** In the place of {@code completion.tryFire(mode)}: for who wanted it, and not for who made the future be there. */
    public static CompletableFuture<?> tryFire(CompletableFuture.Completion completion, int mode) {
        Mine mine = mine();
        if (mine == null) return completion.tryFire(mode);
        Task before = mine.current, task = fires(completion, mode, before);
        if (task == before) return completion.tryFire(mode);
        mine.enter(task);
        try {
            return completion.tryFire(mode);
        } finally {
            mine.enter(before);
        }
    }

    /** Somebody says what comes of a future. */
    public static void completes(Object future) {
        if (!active) return;
        try {
            Task current = current();
            CompletableFuture.Completion waits = current == null ? null : ((CompletableFuture<?>) future).stack;
            for (int i = 0; waits != null && i < WakepathTasksOthers.LOOK_MAX; i++, waits = waits.next) {
                WakepathTasksWanted wanted = WakepathTasksWanted.find(waits);
                if (wanted != null) others.comesOf(current, wanted.by);
            }
        } catch (Throwable e) {
            // the program goes on as if there were no agent
        }
    }

    /** A thread lets another one go on. */
    public static void wakes(Object thread) {
        if (!active || thread == null) return;
        try {
            others.wakes((Thread) thread, current());
        } catch (Throwable e) {
            // the program goes on as if there were no agent
        }
    }

    // ---------------------------------------------------------------- who wants what

    private static void want(Object task, Task by) {
        Object wanted = WakepathTasksWrapper.unwrapped(task);
        if (wanted instanceof CompletableFuture.Completion) {
            // each is made for one who asks
            WakepathTasksWanted.put(wanted, by, true);
            return;
        }
        if (!givesValue(wanted)) {
            WakepathTasksWanted.put(wanted, by, false);
            return;
        }
        Habit habit = Habit.OF.get(wanted.getClass());
        if (habit.isBroken) return;
        if (by.kind == habit) {
            habit.isBroken = true;
            return;
        }
        boolean isUsual = habit.seen >= HABIT_MIN;
        if (!isUsual) habit.seen++;
        if (!WakepathTasksWanted.put(wanted, by, isUsual)) habit.isBroken = true;
    }

    /** Whether something comes of it, which somebody wants: what gives nothing may work off a queue of what others want. */
    private static boolean givesValue(Object wanted) {
        return wanted instanceof Callable || wanted instanceof Supplier || wanted instanceof ForkJoinTask;
    }

    /** A task for who wanted it; {@code null} where nobody is known to, or it has begun. */
    private static Task wantedBy(Object wanted) {
        try {
            boolean isCompletion = wanted instanceof CompletableFuture.Completion;
            Habit habit = isCompletion ? null : Habit.OF.get(wanted.getClass());
            return habit != null && habit.isBroken ? null : WakepathTasksWanted.take(wanted, habit);
        } catch (Throwable e) {
            return null;
        }
    }

    /** What a completion runs as. */
    private static Task fires(Object completion, int mode, Task current) {
        try {
            WakepathTasksWanted wanted = WakepathTasksWanted.find(completion);
            if (wanted == null) {
                // older than the agent: whoever made the future be there did not want this; what an executor runs has its own task
                return mode > 0 ? current : new Task(null, System.nanoTime(), null);
            }
            Task maker = wanted.pending == 0 ? null : wanted.by;
            return maker == null || maker == current ? current : new Task(maker, wanted.since, null);
        } catch (Throwable e) {
            return null;
        }
    }

    /** What the current thread runs; {@code null} where that is nothing that may have made something. */
    static Task current() {
        Thread thread = Thread.currentThread();
        if (VIRTUAL != null && VIRTUAL.isInstance(thread)) return Task.virtual(thread);
        Mine mine = mine();
        return mine == null ? null : mine.current;
    }

    /** What a thread runs; {@code null} where that is not known. */
    static Task of(Thread thread) {
        if (VIRTUAL != null && VIRTUAL.isInstance(thread)) return Task.virtual(thread);
        Mine mine = WakepathTasksOthers.of(thread);
        return mine == null ? null : mine.current;
    }

    static WakepathTasksOthers others() {
        return others;
    }

    static Mine mine() {
        if (!active) return null;
        Thread thread = Thread.currentThread();
        // a virtual one may go on on another thread's slot
        if (VIRTUAL != null && VIRTUAL.isInstance(thread) || CARRIER != null && CARRIER.isInstance(thread)) return null;
        Mine mine = MINE.get();
        if (mine == null) {
            mine = new Mine(thread);
            MINE.set(mine);
            WakepathTasksOthers.knows(thread, mine);
        }
        if (mine.turn != turn) mine.forget();
        return mine;
    }

    private static Class<?> ofJdk(String name) {
        try {
            return Class.forName(name, false, null);
        } catch (ClassNotFoundException e) {
            return null;
        }
    }

    /** What is known of the tasks of a class. Races lose a count, no more. */
    static final class Habit {
        static final ClassValue<Habit> OF = new ClassValue<>() {
            @Override
            protected Habit computeValue(Class<?> of) {
                return new Habit();
            }
        };

        int seen;
        volatile boolean isBroken;
    }

    /** A task of an executor that runs or ran, or a virtual thread as what made one. */
    static class Task {
        /** Who is not told. */
        static final Task NOBODY = new Task(0);
        final long id;
        /** When somebody wanted it (CLOCK_MONOTONIC, ns); of what nobody is known to have wanted, when it began. */
        final long born;
        final Habit kind;
        /** Who made it, who made that one, and so on; then when each of them was made. */
        final long[] line;
        /** The first of that line; {@code null} for the task itself. */
        private final Task root;
        /** It was told to work for others too. */
        volatile boolean isToldOf;

        Task(Task maker, long born, Habit kind) {
            this.id = LAST.incrementAndGet();
            this.born = born;
            this.kind = kind;
            this.root = maker == null ? null : maker.root();
            if (maker == null) {
                line = null;
                return;
            }
            line = new long[2 * MAKERS_MAX];
            if (maker.line != null) {
                System.arraycopy(maker.line, 0, line, 1, MAKERS_MAX - 1);
                System.arraycopy(maker.line, MAKERS_MAX, line, MAKERS_MAX + 1, MAKERS_MAX - 1);
            }
            line[0] = maker.id;
            line[MAKERS_MAX] = maker.born;
        }

        private Task(long id) {
            this.id = id;
            this.born = 0;
            this.kind = null;
            this.root = null;
            this.line = null;
        }

        Task root() {
            return root == null ? this : root;
        }

        @SuppressWarnings("deprecation") // threadId() came later
        static Task virtual(Thread thread) {
            return new Task(thread.getId());
        }
    }

    /** What is known of a thread. Only the thread itself writes into its slot. */
    static final class Mine {
        /** Where its slot is in the words; 0 where it has none. */
        private final int at;
        volatile Task current;
        /** What a pool's thread began. */
        Object begun;
        /** What the JDK wraps in that, until it begins itself. */
        private Object taken;

        /** Since when it knows. */
        int turn = WakepathTasks.turn;
        /** It is an event loop: what it does itself is for nobody. */
        private boolean isLoop;
        /** Its connections, and that to which it turned. */
        WakepathTasksLine.Table lines = new WakepathTasksLine.Table();
        WakepathTasksLine line;

        Mine(Thread thread) {
            at = slot(thread);
        }

        void forget() {
            turn = WakepathTasks.turn;
            begun = taken = null;
            lines = new WakepathTasksLine.Table();
            line = null;
            enter(null);
        }

        void isLoop() {
            if (isLoop) return;
            isLoop = true;
            tell(null);
        }

        /** The task that a pool begins now. */
        Task made(Object task) {
            taken = WakepathTasksWrapper.unwrapped(task);
            Task made = WakepathTasks.wantedBy(taken);
            return made != null ? made : new Task(null, System.nanoTime(), null);
        }

        /** What is begun within a task, or by one for others; {@code null} where that is what the pool began. */
        Task wantedBy(Object task) {
            Object wanted = WakepathTasksWrapper.unwrapped(task);
            if (wanted != taken) return WakepathTasks.wantedBy(wanted);
            taken = null;
            return null;
        }

        void enter(Task task) {
            current = task;
            if (!isLoop) tell(task);
        }

        /** Who is told to do what the thread does now. */
        void tell(Task task) {
            if (at == 0) return;
            if (task == null) {
                words.putLong(at + AT_ID, 0);
                return;
            }
            words.putLong(at + AT_BORN, task.born);
            long[] line = task.line;
            if (line == null) {
                words.putLong(at + AT_MAKERS, 0);
            } else {
                for (int i = 0; i < MAKERS_MAX; i++) {
                    words.putLong(at + AT_MAKERS + 8 * i, line[i]);
                    words.putLong(at + AT_MAKERS_BORN + 8 * i, line[MAKERS_MAX + i]);
                    if (line[i] == 0) break;
                }
            }
            words.putLong(at + AT_ID, task.id);
        }

        private static int slot(Thread thread) {
            try {
                // PID/task/TID, as the process itself sees them
                Path self = Files.readSymbolicLink(Path.of("/proc/thread-self"));
                int number = Integer.parseInt(self.getFileName().toString());
                return number > 0 && number < THREADS ? Owner.slot(thread, number) : 0;
            } catch (Throwable e) {
                return 0;
            }
        }
    }

    /** A thread that has a slot, which is another's when it is gone. */
    private static final class Owner extends WeakReference<Thread> {
        private static final java.util.Set<Owner> ALL = new java.util.HashSet<>();
        private final int number;
        private final int slot;

        private Owner(Thread thread, int number, int slot) {
            super(thread, GONE);
            this.number = number;
            this.slot = slot;
        }

        static int slot(Thread thread, int number) {
            synchronized (ALL) {
                for (Object gone = GONE.poll(); gone != null; gone = GONE.poll()) ((Owner) gone).leave();
                int slot = !FREE.isEmpty() ? FREE.pop() : slots < SLOTS_MAX ? slots++ : 0;
                if (slot == 0) return 0;
                ALL.add(new Owner(thread, number, slot));
                int at = SLOTS + SLOT_BYTES * slot;
                words.putLong(at + AT_ID, 0);
                words.putLong(at + AT_THREAD, number);
                words.putInt(TABLE + 4 * number, slot);
                return at;
            }
        }

        private void leave() {
            ALL.remove(this);
            if (words.getInt(TABLE + 4 * number) == slot) words.putInt(TABLE + 4 * number, 0);
            words.putLong(SLOTS + SLOT_BYTES * slot + AT_THREAD, 0);
            FREE.push(slot);
        }
    }
}
