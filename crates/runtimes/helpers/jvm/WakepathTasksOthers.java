package java.util.concurrent;

import java.lang.invoke.VarHandle;
import java.nio.MappedByteBuffer;
import java.util.Map;
import java.util.WeakHashMap;
import java.util.concurrent.locks.LockSupport;

/**
 * Tells of which tasks it was seen that they work for others too: they, or what they made, said what comes of a future, or counted a latch down,
 * at which somebody waited who was not made by the same. So who works off a queue that several share is found out when it hands back what
 * it did. (Who waits for the future of a task itself wants what that does for who made it.)
 */
final class WakepathTasksOthers {
    /** Room for the last ones that were told, each 8 bytes. */
    static final int ROOM = 1 << 16;
    static final int BYTES = 8 * ROOM;
    /** Most of what waits for a future that are looked at. */
    static final int LOOK_MAX = 64;
    private static final Class<?> LATCH = latch();
    /** By thread, for those who wake it. */
    private static final Map<Thread, WakepathTasks.Mine> WAITING = new WeakHashMap<>();

    private final MappedByteBuffer words;
    private final int atCount;
    private final int at;

    WakepathTasksOthers(MappedByteBuffer words, int atCount, int at) {
        this.words = words;
        this.atCount = atCount;
        this.at = at;
    }

    private static Class<?> latch() {
        try {
            return Class.forName("java.util.concurrent.CountDownLatch$Sync", false, null);
        } catch (ClassNotFoundException e) {
            return null;
        }
    }

    /** What somebody waits for, or wants something done behind, comes of a task. */
    void comesOf(WakepathTasks.Task task, WakepathTasks.Task waits) {
        // of who has no number it is not known who it is
        if (task == null || waits == null || waits.id == 0 || task.root().id == waits.root().id) return;
        tell(task.root());
    }

    /** A thread wakes another one. That it sets a lock free or a connection of a pool hands back nothing; that it counts a latch down does. */
    void wakes(Thread other, WakepathTasks.Task task) {
        if (task == null || LATCH == null || !LATCH.isInstance(LockSupport.getBlocker(other))) return;
        comesOf(task, WakepathTasks.of(other));
    }

    static void knows(Thread thread, WakepathTasks.Mine mine) {
        synchronized (WAITING) {
            WAITING.put(thread, mine);
        }
    }

    static WakepathTasks.Mine of(Thread thread) {
        synchronized (WAITING) {
            return WAITING.get(thread);
        }
    }

    synchronized void tell(WakepathTasks.Task root) {
        if (root.isToldOf) return;
        root.isToldOf = true;
        long count = words.getLong(atCount);
        words.putLong(at + 8 * (int) (count & (ROOM - 1)), root.id);
        // who reads the count finds what it counts
        VarHandle.releaseFence();
        words.putLong(atCount, count + 1);
    }
}
