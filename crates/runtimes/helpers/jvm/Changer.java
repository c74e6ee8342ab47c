package wakepath.agent;

import java.lang.instrument.ClassFileTransformer;
import java.lang.instrument.Instrumentation;
import java.nio.charset.StandardCharsets;
import java.security.ProtectionDomain;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.ThreadPoolExecutor;
import java.util.function.Consumer;

/** Which methods are changed, and how. */
final class Changer implements ClassFileTransformer {
    private static final String IN = "java/util/concurrent/";
    private static final String FUTURE = IN + "CompletableFuture";
    private static final Edit WANTED = Edit.entry("wanted", 1), BEGINS = Edit.entry("begins", 2), ENDS = Edit.entry("ends", 0);
    /** Of the method's own object, or of a static method's first argument. */
    private static final Edit SAYS = Edit.entry("completes", Edit.THIS), WAKES = Edit.entry("wakes", Edit.THIS);
    private static final Edit EXECUTES = Edit.call(IN + "Executor", "execute", "(Ljava/lang/Runnable;)V", "execute",
        "(L" + IN + "Executor;Ljava/lang/Runnable;)V");
    private static final Edit FORKED = Edit.call("", "exec", "()Z", "exec", "(L" + IN + "ForkJoinTask;)Z");
    private static final Edit FIRES =
        Edit.call("", "tryFire", "(I)L" + FUTURE + ";", "tryFire", "(L" + FUTURE + "$Completion;I)L" + FUTURE + ";");
    private static final Edit CALLS = Edit.call(IN + "Callable", "call", "()Ljava/lang/Object;", "call",
        "(L" + IN + "Callable;)Ljava/lang/Object;");
    private static final Edit GETS = Edit.call("java/util/function/Supplier", "get", "()Ljava/lang/Object;", "get",
        "(Ljava/util/function/Supplier;)Ljava/lang/Object;");
    private static final Edit RUNS = Edit.call("java/lang/Runnable", "run", "()V", "run", "(Ljava/lang/Runnable;)V");
    private static final Edit JOBS = Edit.call("java/lang/Runnable", "run", "()V", "runs", "(Ljava/lang/Runnable;)V");
    /** In classes that extend a pool of threads. */
    private static final String BEFORE = "beforeExecute", BEFORE_OF = "(Ljava/lang/Thread;Ljava/lang/Runnable;)V";

    /**
     * By class, then by the beginning of a method's name and descriptor. Methods that a thread stays in (`runWorker`) are none of these: a
     * thread that is in one goes on in it as it was.
     */
    private static final Map<String, Map<String, Edit>> JDK = Map.of(
        IN + "ThreadPoolExecutor", Map.of(BEFORE + BEFORE_OF, BEGINS, "getTask(", ENDS, "processWorkerExit(", ENDS),
        IN + "FutureTask", Map.of("<init>(", WANTED, "run()", CALLS),
        IN + "ForkJoinPool", Map.of("submit(", WANTED),
        IN + "ForkJoinTask", Map.of("doExec(", FORKED, "fork(", Edit.entry("wanted", Edit.THIS)),
        FUTURE, Map.ofEntries(Map.entry("tryPushStack(", WANTED), Map.entry("complete(", SAYS), Map.entry("completeExceptionally(", SAYS),
            Map.entry("postComplete(", FIRES), Map.entry("unipush(", FIRES), Map.entry("bipush(", FIRES), Map.entry("orpush(", FIRES),
            Map.entry("uni", EXECUTES), Map.entry("bi", EXECUTES), Map.entry("async", EXECUTES), Map.entry("completeAsync(", EXECUTES)),
        FUTURE + "$AsyncSupply", Map.of("run(", GETS),
        FUTURE + "$AsyncRun", Map.of("run(", RUNS),
        IN + "locks/LockSupport", Map.of("unpark(", WAKES),
        FUTURE + "$Completion", Map.of("run(", FIRES, "exec(", FIRES));
    /** The same of libraries that have pools of their own. */
    private static final Map<String, Map<String, Edit>> LIBRARIES = Map.of(
        "org/apache/tomcat/util/threads/ThreadPoolExecutor",
        Map.of(BEFORE + BEFORE_OF, BEGINS, "getTask(", ENDS, "processWorkerExit(", ENDS),
        "org/eclipse/jetty/util/thread/QueuedThreadPool", Map.of("runJob(", JOBS),
        // of JBoss, on which Undertow, WildFly and Quarkus run: what it wraps each task in, and where a thread looks for the next
        "org/jboss/threads/EnhancedQueueExecutor$Task", Map.of("run(", Edit.entry("begins", Edit.THIS)),
        "org/jboss/threads/EnhancedQueueExecutor$ThreadBody", Map.of("getOrAddNode(", ENDS),
        // a job of that pool may be to look for work, and to do what it finds, of one connection and then of another
        "org/eclipse/jetty/util/thread/strategy/AdaptiveExecutionStrategy", Map.of("runTask(", JOBS),
        "org/eclipse/jetty/util/thread/strategy/EatWhatYouKill", Map.of("runTask(", JOBS));

    private static final byte[] BEFORE_NAME = BEFORE.getBytes(StandardCharsets.UTF_8);

    private final String hooks;
    private final TreeSet<String> done = new TreeSet<>();
    private final List<String> failed = new ArrayList<>();
    /** Who loaded the Netty that is changed: others are left as they are. */
    private volatile ClassLoader netty;
    private volatile boolean isNettyKnown = true;
    /** Gets it when it is found, and {@code null} where it is not one that is known. */
    private final Consumer<ClassLoader> found;

    Changer(String hooks, Consumer<ClassLoader> found) {
        this.hooks = hooks;
        this.found = found;
    }

    /** The classes that are changed: those of the JDK, and of all that are loaded those that have or extend pools. */
    Class<?>[] classes(Instrumentation instrumentation) throws ClassNotFoundException {
        Set<Class<?>> out = new LinkedHashSet<>();
        for (String name : new TreeSet<>(JDK.keySet())) out.add(Class.forName(name.replace('/', '.'), false, null));
        for (Class<?> one : instrumentation.getAllLoadedClasses()) {
            String name = one.getName().replace('.', '/');
            boolean isKnown = LIBRARIES.containsKey(name) || Netty.CHANGES.containsKey(name);
            if ((isKnown || isPool(one)) && instrumentation.isModifiableClass(one)) out.add(one);
        }
        return out.toArray(new Class<?>[0]);
    }

    private static boolean isPool(Class<?> one) {
        try {
            return ThreadPoolExecutor.class.isAssignableFrom(one) && !one.isHidden()
                && one.getDeclaredMethod(BEFORE, Thread.class, Runnable.class) != null;
        } catch (NoSuchMethodException | LinkageError e) {
            return false;
        }
    }

    /** How many methods were changed. */
    int changed() {
        return done.size();
    }

    /** Methods that are not there, or not as they are known. */
    String lacks() {
        var out = new ArrayList<>(failed);
        JDK.forEach((of, edits) -> edits.forEach((method, edit) -> {
            if (!done.contains(of + "." + method)) out.add(of + "." + method);
        }));
        return String.join(", ", out);
    }

    @Override
    public byte[] transform(ClassLoader loader, String name, Class<?> was, ProtectionDomain domain, byte[] bytes) {
        if (loader != null && name != null && Netty.CHANGES.containsKey(name)) return netty(loader, name, bytes);
        Map<String, Edit> edits = edits(loader, name, bytes);
        if (edits == null) return null;
        try {
            var file = new ClassFile(bytes, hooks);
            edits.forEach((method, edit) -> {
                if (file.edit(method, edit)) done.add(name + "." + method);
            });
            return file.bytes();
        } catch (RuntimeException e) {
            failed.add(name + ": " + e);
            return null;
        }
    }

    private byte[] netty(ClassLoader loader, String name, byte[] bytes) {
        synchronized (this) {
            if (netty == null) {
                netty = loader;
                found.accept(loader);
            }
        }
        if (netty != loader || !isNettyKnown) return null;
        try {
            var file = new ClassFile(bytes, hooks);
            for (Netty.Change one : Netty.CHANGES.get(name)) {
                if (file.edit(one.method(), one.edit())) done.add(name + "." + one.method());
                else if (one.isNeeded()) throw new IllegalStateException(one.method());
            }
            return file.bytes();
        } catch (RuntimeException e) {
            // not as it is known: none of it is told of
            isNettyKnown = false;
            found.accept(null);
            return null;
        }
    }

    private static Map<String, Edit> edits(ClassLoader loader, String name, byte[] bytes) {
        if (name == null) return null;
        if (loader == null) return JDK.get(name);
        Map<String, Edit> own = LIBRARIES.get(name);
        return own != null || !has(bytes, BEFORE_NAME) ? own : Map.of(BEFORE + BEFORE_OF, BEGINS);
    }

    private static boolean has(byte[] bytes, byte[] part) {
        for (int i = 0; i + part.length <= bytes.length; i++) {
            if (bytes[i] == part[0] && Arrays.equals(bytes, i, i + part.length, part, 0, part.length)) return true;
        }
        return false;
    }
}
