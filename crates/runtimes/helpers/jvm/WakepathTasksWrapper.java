package java.util.concurrent;

import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.lang.reflect.Modifier;

/** Where classes of the JDK keep what they wrap. */
final class WakepathTasksWrapper {
    /** Deepest nesting of what the JDK wraps a task in. */
    private static final int WRAPPERS_MAX = 6;
    private static final String[] NAMES = {"callable", "task", "fn", "runnable"};
    static final ClassValue<VarHandle> FIELD = new ClassValue<>() {
        @Override
        protected VarHandle computeValue(Class<?> of) {
            for (Class<?> at = of; at != null && at != Object.class; at = at.getSuperclass()) {
                if (at.getClassLoader() != null || !"java.util.concurrent".equals(at.getPackageName())) continue;
                for (String name : NAMES) {
                    VarHandle field = field(at, name);
                    if (field != null) return field;
                }
            }
            return null;
        }
    };

    private static VarHandle field(Class<?> at, String name) {
        try {
            var field = at.getDeclaredField(name);
            if (Modifier.isStatic(field.getModifiers()) || field.getType().isPrimitive()) return null;
            return MethodHandles.privateLookupIn(at, MethodHandles.lookup()).unreflectVarHandle(field);
        } catch (ReflectiveOperationException e) {
            return null;
        }
    }

    private WakepathTasksWrapper() {}

    /** What somebody gave to the JDK, which wraps it. */
    static Object unwrapped(Object task) {
        if (task instanceof CompletableFuture.Completion) return task;
        Object inner = task;
        for (int i = 0; i < WRAPPERS_MAX; i++) {
            VarHandle field = FIELD.get(inner.getClass());
            Object next = field == null ? null : field.get(inner);
            if (next == null) return inner;
            inner = next;
        }
        return inner;
    }
}
