package java.util.concurrent;

import java.lang.ref.ReferenceQueue;
import java.lang.ref.WeakReference;

/** What is known of a connection of an event loop. Only the loop's thread asks for it. */
final class WakepathTasksLine {
    /** It was accepted. */
    final boolean isServer;
    /** Of one that was accepted: the last request read there. */
    WakepathTasksContext request;
    /** Requests came before the replies to those before: whose reply is whose is not known. */
    boolean isPipelined;
    /** Of others: who wrote last; {@code null} where that is not known. */
    WakepathTasksContext owner;
    /** Its answer has not come. */
    boolean waits;
    /** Who is told to have written what waits to be sent. */
    WakepathTasksContext unsent;

    WakepathTasksLine(boolean isServer) {
        this.isServer = isServer;
    }

    /** Something is read: for whom. */
    WakepathTasksContext reads() {
        if (isServer) return request == null || request.isOver ? null : request;
        if (owner == null) return null;
        if (waits) {
            waits = false;
            owner.waits.decrementAndGet();
        }
        // one that is over tells nothing any more; but if another one's reply comes of this, the two are mixed up
        return owner;
    }

    /** The head of a request was read. */
    WakepathTasksContext begins() {
        var next = new WakepathTasksContext();
        if (request != null && !request.isOver) {
            isPipelined = true;
            request.doubt();
        }
        if (isPipelined) next.doubt();
        request = next;
        return next;
    }

    /** Somebody writes. {@code isFirst}: nothing waits to be sent. */
    void writes(WakepathTasksContext by, boolean isFirst) {
        WakepathTasksContext told = isServer ? replies(by) : calls(by);
        if (isFirst) {
            unsent = told;
        } else if (unsent != told) {
            if (unsent != null) unsent.doubt();
            if (told != null) told.doubt();
            unsent = null;
        }
    }

    private WakepathTasksContext replies(WakepathTasksContext by) {
        return request != null && request.replies(by) ? request : null;
    }

    private WakepathTasksContext calls(WakepathTasksContext by) {
        if (waits && owner != by) {
            // two wait on one connection: who of them an answer is for is not known
            owner.doubt();
            if (by != null) by.doubt();
            owner.waits.decrementAndGet();
            waits = false;
        }
        owner = by;
        if (by == null || by.isOver) return null;
        if (!waits) {
            waits = true;
            by.waits.incrementAndGet();
        }
        return by;
    }

    /** Connections by what stands for them. It keeps none of them alive. */
    static final class Table {
        private static final class Place extends WeakReference<Object> {
            final int hash;
            final WakepathTasksLine line;
            Place next;

            Place(Object key, int hash, WakepathTasksLine line, ReferenceQueue<Object> gone) {
                super(key, gone);
                this.hash = hash;
                this.line = line;
            }
        }

        private final ReferenceQueue<Object> gone = new ReferenceQueue<>();
        private Place[] places = new Place[64];
        private int count;

        WakepathTasksLine find(Object key) {
            Place at = places[spread(System.identityHashCode(key)) & (places.length - 1)];
            while (at != null && !at.refersTo(key)) at = at.next;
            return at == null ? null : at.line;
        }

        void put(Object key, WakepathTasksLine line) {
            for (Object one = gone.poll(); one != null; one = gone.poll()) remove((Place) one);
            if (count >= places.length) grow();
            add(new Place(key, spread(System.identityHashCode(key)), line, gone));
            count++;
        }

        private static int spread(int hash) {
            return hash ^ hash >>> 12;
        }

        private void add(Place one) {
            int at = one.hash & (places.length - 1);
            one.next = places[at];
            places[at] = one;
        }

        private void grow() {
            Place[] old = places;
            places = new Place[2 * old.length];
            for (Place at : old) {
                while (at != null) {
                    Place next = at.next;
                    add(at);
                    at = next;
                }
            }
        }

        private void remove(Place one) {
            int place = one.hash & (places.length - 1);
            Place before = null, at = places[place];
            while (at != null && at != one) {
                before = at;
                at = at.next;
            }
            if (at == null) return;
            if (before == null) places[place] = at.next;
            else before.next = at.next;
            count--;
        }
    }
}
