package wakepath.agent;

import java.io.ByteArrayOutputStream;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;

/**
 * A class file (The Java Virtual Machine Specification, chapter 4) in which methods are changed. No change moves a branch against its
 * target, so that frames and tables only move as a whole, and no library is needed.
 */
final class ClassFile {
    private static final int UTF8 = 1, CLASS = 7, METHOD = 10, INTERFACE_METHOD = 11, NAME_AND_TYPE = 12;
    private static final int ALOAD_0 = 0x2a, INVOKE_VIRTUAL = 0xb6, INVOKE_STATIC = 0xb8, INVOKE_INTERFACE = 0xb9;
    private static final int TABLE_SWITCH = 0xaa, LOOKUP_SWITCH = 0xab, WIDE = 0xc4, IINC = 0x84;
    /** Bytes put first: a multiple of four, as switches count on. */
    private static final int FIRST = 8;
    /** Bytes of the constants behind their tags; 0 for text. */
    private static final int[] CONSTANT_BYTES = {0, 0, 0, 4, 4, 8, 8, 2, 2, 4, 4, 4, 4, 0, 0, 3, 2, 4, 4, 2, 2};
    /** Bytes of each instruction; 0: not always the same. */
    private static final String INSTRUCTION_BYTES =
        "1111111111111111" + "2323322222111111" + "1111111111111111" + "1111112222211111" + "1111111111111111"
            + "1111111111111111" + "1111111111111111" + "1111111111111111" + "1111311111111111" + "1111111113333333"
            + "3333333332001111" + "1133333335532311" + "3311043355";

    private final ByteBuffer in;
    private final String hooks;
    /** Where each constant begins. */
    private final int[] constants;
    private final int constantsEnd;
    private final ByteArrayOutputStream added = new ByteArrayOutputStream();
    private int count;
    private final int methodsAt;
    /** The methods as they are by now. */
    private final List<byte[]> methods = new ArrayList<>();
    private final int restAt;

    ClassFile(byte[] bytes, String hooks) {
        in = ByteBuffer.wrap(bytes);
        this.hooks = hooks;
        count = u2(8);
        constants = new int[count];
        int at = 10;
        for (int i = 1; i < count; i++) {
            constants[i] = at;
            int tag = in.get(at);
            at += 1 + (tag == UTF8 ? 2 + u2(at + 1) : CONSTANT_BYTES[tag]);
            // a long takes two numbers
            if (tag == 5 || tag == 6) i++;
        }
        constantsEnd = at;
        at += 6;
        at += 2 + 2 * u2(at);
        int fields = u2(at);
        at += 2;
        for (int i = 0; i < fields; i++) at = memberEnd(at);
        methodsAt = at;
        int number = u2(at);
        at += 2;
        for (int i = 0; i < number; i++) {
            int end = memberEnd(at);
            methods.add(java.util.Arrays.copyOfRange(bytes, at, end));
            at = end;
        }
        restAt = at;
    }

    private int u2(int at) {
        return in.getShort(at) & 0xffff;
    }

    private int memberEnd(int at) {
        int attributes = u2(at + 6);
        int end = at + 8;
        for (int i = 0; i < attributes; i++) end += 6 + in.getInt(end + 2);
        return end;
    }

    /** Changes the methods whose name and descriptor begin so; says whether anything was. */
    boolean edit(String method, Edit edit) {
        boolean isDone = false;
        for (int i = 0; i < methods.size(); i++) {
            ByteBuffer old = ByteBuffer.wrap(methods.get(i));
            String name = text(old.getShort(2) & 0xffff) + text(old.getShort(4) & 0xffff);
            if (!name.startsWith(method)) continue;
            byte[] made = changed(old, edit);
            isDone |= made != null;
            if (made != null) methods.set(i, made);
        }
        return isDone;
    }

    byte[] bytes() {
        var out = ByteBuffer.allocate(in.capacity() + added.size() + 1024 * methods.size());
        out.put(in.array(), 0, 8).putShort((short) count).put(in.array(), 10, constantsEnd - 10).put(added.toByteArray());
        out.put(in.array(), constantsEnd, methodsAt - constantsEnd).putShort((short) methods.size());
        methods.forEach(out::put);
        out.put(in.array(), restAt, in.capacity() - restAt);
        return java.util.Arrays.copyOf(out.array(), out.position());
    }

    // ---------------------------------------------------------------- one method

    /** {@code null} where nothing is to be changed. */
    private byte[] changed(ByteBuffer method, Edit edit) {
        int attributes = method.getShort(6) & 0xffff, at = 8;
        for (int i = 0; i < attributes; i++) {
            int bytes = method.getInt(at + 2);
            if (text(method.getShort(at) & 0xffff).equals("Code")) {
                return edit.isEntry() ? withFirst(method, at, edit) : withCalls(method, at, edit);
            }
            at += 6 + bytes;
        }
        return null;
    }

    /** A hook in the place of each such call: no byte moves. */
    private byte[] withCalls(ByteBuffer method, int code, Edit edit) {
        int begin = code + 14, end = begin + method.getInt(code + 10), hook = 0;
        for (int at = begin; at < end; at += length(method, at, begin)) {
            int instruction = method.get(at) & 0xff;
            if (instruction != INVOKE_VIRTUAL && instruction != INVOKE_INTERFACE) continue;
            if (!isCalled(method.getShort(at + 1) & 0xffff, edit)) continue;
            if (hook == 0) hook = hook(edit);
            int bytes = instruction == INVOKE_INTERFACE ? 5 : 3;
            method.put(at, (byte) INVOKE_STATIC).putShort(at + 1, (short) hook);
            for (int i = 3; i < bytes; i++) method.put(at + i, (byte) 0);
        }
        return hook == 0 ? null : method.array();
    }

    private boolean isCalled(int constant, Edit edit) {
        int at = constants[constant];
        int owner = constants[u2(at + 1)], name = constants[u2(at + 3)];
        return text(u2(name + 1)).equals(edit.called()) && text(u2(name + 3)).equals(edit.taking())
            && (edit.of().isEmpty() || text(u2(owner + 1)).equals(edit.of()));
    }

    private static int length(ByteBuffer method, int at, int begin) {
        int instruction = method.get(at) & 0xff;
        int padded = at + 4 - (at - begin) % 4;
        return switch (instruction) {
            case TABLE_SWITCH -> padded + 12 + 4 * (method.getInt(padded + 8) - method.getInt(padded + 4) + 1) - at;
            case LOOKUP_SWITCH -> padded + 8 + 8 * method.getInt(padded + 4) - at;
            case WIDE -> (method.get(at + 1) & 0xff) == IINC ? 6 : 4;
            default -> INSTRUCTION_BYTES.charAt(instruction) - '0';
        };
    }

    /** A call of the hook first: all behind moves by as much. */
    private byte[] withFirst(ByteBuffer method, int code, Edit edit) {
        int codeBytes = method.getInt(code + 10), begin = code + 14;
        var out = ByteBuffer.allocate(method.capacity() + FIRST + 8);
        out.put(method.array(), 0, code + 2).putInt(0);
        out.putShort((short) Math.max(2, method.getShort(code + 6))).putShort(method.getShort(code + 8));
        out.putInt(codeBytes + FIRST);
        loading(edit.argument(), out);
        out.put((byte) INVOKE_STATIC).putShort((short) hook(edit));
        while (out.position() < begin + FIRST) out.put((byte) 0);
        out.put(method.array(), begin, codeBytes);
        int at = begin + codeBytes, handlers = method.getShort(at) & 0xffff;
        out.putShort((short) handlers);
        at += 2;
        for (int i = 0; i < handlers; i++, at += 8) {
            for (int j = 0; j < 6; j += 2) out.putShort((short) (method.getShort(at + j) + FIRST));
            out.putShort(method.getShort(at + 6));
        }
        int attributes = method.getShort(at) & 0xffff;
        at += 2;
        int countAt = out.position(), kept = 0;
        out.putShort((short) 0);
        for (int i = 0; i < attributes; i++) {
            int bytes = method.getInt(at + 2);
            kept += moved(method, at, bytes, out) ? 1 : 0;
            at += 6 + bytes;
        }
        out.putShort(countAt, (short) kept);
        out.putInt(code + 2, out.position() - code - 6);
        out.put(method.array(), at, method.capacity() - at);
        return java.util.Arrays.copyOf(out.array(), out.position());
    }

    private static void loading(int argument, ByteBuffer out) {
        if (argument == Edit.BOTH) {
            out.put((byte) ALOAD_0).put((byte) (ALOAD_0 + 1));
        } else if (argument != 0) {
            out.put((byte) (ALOAD_0 + Math.max(argument, 0)));
        }
    }

    /** A table of a method's code, moved; false where it is left out, as debuggers can do without it. */
    private boolean moved(ByteBuffer method, int at, int bytes, ByteBuffer out) {
        String name = text(method.getShort(at) & 0xffff);
        int entries = method.getShort(at + 6) & 0xffff;
        int first = at + 8;
        switch (name) {
            case "StackMapTable" -> {
                int sizeAt = out.position() + 2;
                out.put(method.array(), at, 8);
                int behind = entries == 0 ? first : firstFrame(method, first, out);
                out.put(method.array(), behind, at + 6 + bytes - behind);
                out.putInt(sizeAt, out.position() - sizeAt - 4);
            }
            case "LineNumberTable" -> {
                out.put(method.array(), at, 8);
                for (int i = 0; i < entries; i++) {
                    out.putShort((short) (method.getShort(first + 4 * i) + FIRST)).putShort(method.getShort(first + 4 * i + 2));
                }
            }
            default -> {
                return false;
            }
        }
        return true;
    }

    /** The first frame says where it is, each other how far behind the one before. */
    private static int firstFrame(ByteBuffer method, int at, ByteBuffer out) {
        int kind = method.get(at) & 0xff;
        if (kind >= 247) {
            out.put((byte) kind).putShort((short) (method.getShort(at + 1) + FIRST));
            return at + 3;
        }
        int base = kind < 64 ? 0 : 64, place = kind - base + FIRST;
        if (place < 64) {
            out.put((byte) (base + place));
        } else {
            out.put((byte) (base == 0 ? 251 : 247)).putShort((short) place);
        }
        return at + 1;
    }

    // ---------------------------------------------------------------- constants

    private String text(int constant) {
        int at = constants[constant];
        return new String(in.array(), at + 3, u2(at + 1), StandardCharsets.UTF_8);
    }

    private int hook(Edit edit) {
        int dot = edit.hook().indexOf('.');
        int of = add(CLASS, add(hooks + edit.hook().substring(0, Math.max(dot, 0))), 0, 2);
        int name = add(NAME_AND_TYPE, add(edit.hook().substring(dot + 1)), add(edit.hooking()), 4);
        return add(METHOD, of, name, 4);
    }

    private int add(int tag, int one, int other, int bytes) {
        added.write(tag);
        for (int i = 0, both = one << 16 | other; i < bytes; i++) added.write(both >> (24 - 8 * i));
        return next();
    }

    private int add(String text) {
        added.write(UTF8);
        added.write(text.length() >> 8);
        added.write(text.length());
        added.writeBytes(text.getBytes(StandardCharsets.US_ASCII));
        return next();
    }

    private int next() {
        if (count == 0xffff) throw new IllegalStateException("no room for constants");
        return count++;
    }
}
