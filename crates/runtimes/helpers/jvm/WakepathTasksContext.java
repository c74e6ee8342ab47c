package java.util.concurrent;

import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicReferenceArray;

/**
 * A request that an event loop read. Its number is told with what was written for it, and with its reply; without the second,
 * nothing is believed of it. It is doubted for good as soon as something was written for it by another one, or for another one by it.
 */
final class WakepathTasksContext extends WakepathTasks.Task {
    /** So long behind a mix-up, and before it, no request of the process is believed: a queue that mixes requests does so unseen, too. */
    private static final long SUSPECT_NS = 10_000_000_000L;
    private static final int RECENT = 1 << 12;
    private static final AtomicReferenceArray<WakepathTasksContext> LAST = new AtomicReferenceArray<>(RECENT);
    private static final AtomicInteger COUNT = new AtomicInteger();
    private static volatile long suspectUntil = Long.MIN_VALUE;

    /** Calls whose answers have not come. They are made on several threads, as connections have loops of their own. */
    final AtomicInteger waits = new AtomicInteger();
    /** Its reply began. */
    volatile boolean isOver;
    /** When that was. */
    private volatile long over = Long.MAX_VALUE;
    /** It told its number with its reply. */
    volatile boolean isTold;

    WakepathTasksContext() {
        super(null, System.nanoTime(), null);
        LAST.set(COUNT.getAndIncrement() & (RECENT - 1), this);
    }

    /** The request that a task works for; {@code null} where that is not known. */
    static WakepathTasksContext of(WakepathTasks.Task task) {
        return task != null && task.root() instanceof WakepathTasksContext context ? context : null;
    }

    /** Its reply begins, written by who that is; says whether its number is told with it. */
    boolean replies(WakepathTasksContext by) {
        if (by != this) {
            if (by == null) doubt();
            else mixed(by, this);
        }
        if (isOver) return isTold && by == this;
        over = System.nanoTime();
        isTold = by == this && !isToldOf && waits.get() == 0 && suspectUntil - over < 0;
        isOver = true;
        return isTold;
    }

    void doubt() {
        WakepathTasks.others().tell(this);
    }

    /** One worked for another: so does whatever brought this about, for others that it cannot be seen of. */
    static void mixed(WakepathTasksContext one, WakepathTasksContext other) {
        one.doubt();
        other.doubt();
        long now = System.nanoTime();
        boolean isSuspect = suspectUntil - now > 0;
        suspectUntil = now + SUSPECT_NS;
        int count = COUNT.get();
        // the last ones first: they are read one by one
        for (int i = 1; !isSuspect && i <= RECENT; i++) {
            WakepathTasksContext recent = LAST.get((count - i) & (RECENT - 1));
            if (recent != null && (!recent.isOver || now - recent.over < SUSPECT_NS)) recent.doubt();
        }
    }

    static void forget() {
        suspectUntil = System.nanoTime();
    }
}
