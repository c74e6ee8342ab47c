package wakepath.agent;

import java.io.IOException;
import java.io.InputStream;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.lang.instrument.ClassFileTransformer;
import java.lang.instrument.Instrumentation;
import java.lang.invoke.MethodHandles;
import java.nio.MappedByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.security.ProtectionDomain;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.jar.JarFile;
import java.util.concurrent.ThreadPoolExecutor;

/**
 * What `wakepath attach` loads into a JVM: changes the JDK's executors so that they say which task each thread runs, and changes
 * them back. What it is told: `begin` or `end`, the jar, and the file in which it says what came of it, each after a tab.
 */
public final class Agent {
    private static final String HOOKS = "java.util.concurrent.WakepathTasks";
    private static Changer changer;
    private static Instrumentation first;

    private Agent() {}

    public static void agentmain(String told, Instrumentation instrumentation) throws IOException {
        String[] words = told.split("\t", 3);
        String said;
        try {
            said = words[0].equals("begin") ? begin(words[1], instrumentation) : end();
        } catch (Throwable e) {
            var text = new StringWriter();
            e.printStackTrace(new PrintWriter(text, true));
            said = "failed\t" + text;
        }
        Files.writeString(Path.of(words[2]), said, StandardCharsets.UTF_8);
    }

    private static synchronized String begin(String jar, Instrumentation instrumentation) throws Exception {
        if (changer != null) return "present";
        Class<?> hooks = hooks(jar, instrumentation);
        MappedByteBuffer memory = null;
        if (!(boolean) hooks.getMethod("hasMemory").invoke(null)) memory = memory((int) hooks.getField("BYTES").get(null));
        var one = new Changer(HOOKS.replace('.', '/'), Agent::netty);
        first = instrumentation;
        instrumentation.addTransformer(one, true);
        changer = one;
        try {
            instrumentation.retransformClasses(one.classes(instrumentation));
        } catch (Throwable e) {
            end();
            throw e;
        }
        String lacks = one.lacks();
        if (!lacks.isEmpty()) {
            end();
            return "lacks\t" + lacks;
        }
        hooks.getMethod("begin", MappedByteBuffer.class, int.class).invoke(null, memory, (int) ProcessHandle.current().pid());
        // a thread that comes and goes tells a recorder that goes on to look again
        var sign = new Thread(() -> {}, "wakepath");
        sign.start();
        sign.join();
        return "begun\t" + one.changed();
    }

    private static synchronized String end() throws Exception {
        if (changer == null) return "absent";
        Class<?> hooks = Class.forName(HOOKS, false, null);
        netty(null);
        hooks.getMethod("end").invoke(null);
        first.removeTransformer(changer);
        Class<?>[] classes = changer.classes(first);
        changer = null;
        // what they are now, by the JVM's own account
        var look = new Look(HOOKS.replace('.', '/'));
        first.addTransformer(look, true);
        try {
            first.retransformClasses(classes);
        } finally {
            first.removeTransformer(look);
        }
        return "ended\t" + look.changed;
    }

    /** Whose Netty is changed; {@code null} where nothing is to be told of loops. */
    private static void netty(ClassLoader of) {
        try {
            Class<?> loops = Class.forName(HOOKS + "Loops", false, null);
            if (of != null) loops.getField("loader").set(null, of);
            loops.getField("isReady").set(null, of != null);
        } catch (ReflectiveOperationException e) {
            throw new IllegalStateException(e);
        }
    }

    /** The class that the JDK's own will call, in their package: whoever loaded a class that calls it finds it there. */
    private static Class<?> hooks(String jar, Instrumentation instrumentation) throws Exception {
        try {
            return Class.forName(HOOKS, false, null);
        } catch (ClassNotFoundException e) {
            // the first time
        }
        Module own = Agent.class.getModule(), base = Object.class.getModule();
        instrumentation.redefineModule(base, Set.of(), Map.of(), Map.of("java.util.concurrent", Set.of(own)), Set.of(), Map.of());
        var lookup = MethodHandles.privateLookupIn(ThreadPoolExecutor.class, MethodHandles.lookup());
        List<byte[]> parts = new ArrayList<>();
        try (var file = new JarFile(jar)) {
            var entries = java.util.Collections.list(file.entries());
            // what others extend comes first, and is within another
            entries.sort(java.util.Comparator.comparing(entry -> !entry.getName().contains("$")));
            for (var entry : entries) {
                if (!entry.getName().startsWith(HOOKS.replace('.', '/')) || !entry.getName().endsWith(".class")) continue;
                try (InputStream in = file.getInputStream(entry)) {
                    parts.add(in.readAllBytes());
                }
            }
        }
        for (byte[] part : parts) lookup.defineClass(part);
        return Class.forName(HOOKS, true, null);
    }

    /** Memory of zeros that is found by the name of its file, which is gone at once. It takes what is used of it. */
    private static MappedByteBuffer memory(int bytes) throws IOException {
        IOException last = null;
        for (String folder : new String[] {System.getProperty("java.io.tmpdir"), "/dev/shm"}) {
            try {
                Path file = Files.createTempFile(Path.of(folder), "wakepath-agent-", "");
                try (var channel = FileChannel.open(file, StandardOpenOption.READ, StandardOpenOption.WRITE)) {
                    channel.write(java.nio.ByteBuffer.allocate(1), bytes - 1L);
                    return channel.map(FileChannel.MapMode.PRIVATE, 0, bytes);
                } finally {
                    Files.delete(file);
                }
            } catch (IOException e) {
                last = e;
            }
        }
        throw last;
    }

    /** Looks which classes still call the hooks. */
    private static final class Look implements ClassFileTransformer {
        private final byte[] name;
        int changed;

        Look(String name) {
            this.name = name.getBytes(StandardCharsets.UTF_8);
        }

        @Override
        public byte[] transform(ClassLoader l, String of, Class<?> was, ProtectionDomain d, byte[] bytes) {
            for (int i = 0; was != null && i + name.length <= bytes.length; i++) {
                if (java.util.Arrays.equals(bytes, i, i + name.length, name, 0, name.length)) {
                    changed++;
                    break;
                }
            }
            return null;
        }
    }
}
