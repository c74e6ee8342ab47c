package java.util.concurrent;

import java.lang.ref.ReferenceQueue;
import java.lang.ref.WeakReference;

/** Who wants something done, by what is to be done. It keeps nothing alive that is done, or never will be. */
final class WakepathTasksWanted extends WeakReference<Object> {
    private static final int STRIPES = 64;
    private static final Stripe[] ALL = new Stripe[STRIPES];

    static {
        for (int i = 0; i < STRIPES; i++) ALL[i] = new Stripe();
    }

    final int hash;
    WakepathTasksWanted next;
    /** Who wanted it first, or wants it alone. */
    private long first;
    /** Who is told to have wanted it; {@link WakepathTasks.Task#NOBODY} where that is not certain. */
    WakepathTasks.Task by;
    /** When. */
    long since;
    /** How often it was wanted and not begun. */
    int pending;

    private WakepathTasksWanted(Object what, int hash, ReferenceQueue<Object> gone) {
        super(what, gone);
        this.hash = hash;
    }

    /** False where another one wanted the same, now or before: then it is nobody's until all that is pending is done. */
    static boolean put(Object what, WakepathTasks.Task by, boolean isTold) {
        int hash = System.identityHashCode(what);
        Stripe stripe = ALL[hash & (STRIPES - 1)];
        synchronized (stripe) {
            stripe.tidy();
            WakepathTasksWanted found = stripe.find(what, hash);
            boolean isNew = found == null;
            if (isNew) {
                found = new WakepathTasksWanted(what, hash, stripe.gone);
                found.first = by.id;
                found.by = by;
                stripe.add(found);
            }
            boolean isSame = found.first == by.id;
            if (!isSame || !isTold) found.by = WakepathTasks.Task.NOBODY;
            found.pending++;
            found.since = System.nanoTime();
            return isSame;
        }
    }

    /** Somebody gives away what may be used again when it is done. */
    static void carry(Object what, WakepathTasks.Task by) {
        int hash = System.identityHashCode(what);
        Stripe stripe = ALL[hash & (STRIPES - 1)];
        synchronized (stripe) {
            WakepathTasksWanted found = stripe.find(what, hash);
            if (found == null) {
                stripe.tidy();
                found = new WakepathTasksWanted(what, hash, stripe.gone);
                stripe.add(found);
            }
            boolean isMixed = found.pending > 0 && found.by != by;
            found.by = isMixed ? WakepathTasks.Task.NOBODY : by;
            found.pending++;
        }
    }

    /** Who gave it away, once for each time; nobody, where several did. */
    static WakepathTasks.Task carried(Object what) {
        int hash = System.identityHashCode(what);
        Stripe stripe = ALL[hash & (STRIPES - 1)];
        synchronized (stripe) {
            WakepathTasksWanted found = stripe.find(what, hash);
            if (found == null || found.pending == 0) return null;
            found.pending--;
            return found.by;
        }
    }

    /** Who gave it away; it stays given. */
    static WakepathTasks.Task carries(Object what) {
        WakepathTasksWanted found = find(what);
        return found == null || found.pending == 0 ? null : found.by;
    }

    static WakepathTasksWanted find(Object what) {
        int hash = System.identityHashCode(what);
        Stripe stripe = ALL[hash & (STRIPES - 1)];
        synchronized (stripe) {
            return stripe.find(what, hash);
        }
    }

    static WakepathTasks.Task take(Object what, WakepathTasks.Habit kind) {
        int hash = System.identityHashCode(what);
        Stripe stripe = ALL[hash & (STRIPES - 1)];
        synchronized (stripe) {
            WakepathTasksWanted found = stripe.find(what, hash);
            if (found == null || found.pending == 0) return null;
            found.pending--;
            return new WakepathTasks.Task(found.by == WakepathTasks.Task.NOBODY ? null : found.by, found.since, kind);
        }
    }

    /** A part of those. */
    private static final class Stripe {
        final ReferenceQueue<Object> gone = new ReferenceQueue<>();
        private WakepathTasksWanted[] places = new WakepathTasksWanted[64];
        private int count;

        private int place(int hash) {
            return (hash >>> 6) & (places.length - 1);
        }

        WakepathTasksWanted find(Object what, int hash) {
            WakepathTasksWanted at = places[place(hash)];
            while (at != null && !at.refersTo(what)) at = at.next;
            return at;
        }

        void add(WakepathTasksWanted one) {
            if (count >= places.length) grow();
            int place = place(one.hash);
            one.next = places[place];
            places[place] = one;
            count++;
        }

        private void grow() {
            WakepathTasksWanted[] old = places;
            places = new WakepathTasksWanted[2 * old.length];
            for (WakepathTasksWanted at : old) {
                while (at != null) {
                    WakepathTasksWanted next = at.next;
                    int place = place(at.hash);
                    at.next = places[place];
                    places[place] = at;
                    at = next;
                }
            }
        }

        void tidy() {
            for (Object one = gone.poll(); one != null; one = gone.poll()) {
                WakepathTasksWanted left = (WakepathTasksWanted) one;
                int place = place(left.hash);
                WakepathTasksWanted at = places[place];
                if (at == left) {
                    places[place] = left.next;
                    count--;
                    continue;
                }
                while (at != null && at.next != left) at = at.next;
                if (at == null) continue;
                at.next = left.next;
                count--;
            }
        }
    }
}
