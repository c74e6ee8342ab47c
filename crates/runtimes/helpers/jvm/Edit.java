package wakepath.agent;

/**
 * A change of a method: a call of a hook as its first instruction, with one of its arguments or none; or a hook in the place of a method
 * that it calls, which takes the same from the stack and leaves the same.
 *
 * @param of       the class whose method is called; empty for any
 * @param called   the method's name, empty where the hook is the first instruction
 * @param taking   its descriptor
 * @param hook     the hook's name; behind a dot, where it is in a class of its own
 * @param hooking  its descriptor
 * @param argument which one the hook gets that is the first instruction; 0 for none, {@link #THIS}, {@link #BOTH}
 */
record Edit(String of, String called, String taking, String hook, String hooking, int argument) {
    /** As an argument: what the method is of. */
    static final int THIS = -1;
    /** As arguments: that, and the method's first one. */
    static final int BOTH = -2;

    static Edit entry(String hook, int argument) {
        String hooking = argument == 0 ? "()V" : argument == BOTH ? "(Ljava/lang/Object;Ljava/lang/Object;)V" : "(Ljava/lang/Object;)V";
        return new Edit("", "", "", hook, hooking, argument);
    }

    static Edit call(String of, String called, String taking, String hook, String hooking) {
        return new Edit(of, called, taking, hook, hooking, 0);
    }

    boolean isEntry() {
        return called.isEmpty();
    }
}
