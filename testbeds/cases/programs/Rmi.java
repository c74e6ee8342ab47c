import java.rmi.Remote;
import java.rmi.RemoteException;
import java.rmi.registry.LocateRegistry;
import java.rmi.registry.Registry;
import java.rmi.server.UnicastRemoteObject;

/** Remote method invocation: `Rmi server PORT`, `Rmi client HOST PORT REQUESTS COMPUTE_MS`. The client prints one JSON line a call. */
public class Rmi {
    public interface Worker extends Remote {
        /** Computes so long and tells by which thread. */
        String compute(int milliseconds) throws RemoteException;
    }

    static class Computing extends UnicastRemoteObject implements Worker {
        Computing(int port) throws RemoteException {
            super(port);
        }

        @Override
        public String compute(int milliseconds) {
            long end = System.nanoTime() + milliseconds * 1_000_000L;
            while (System.nanoTime() < end) {
                Thread.onSpinWait();
            }
            return Thread.currentThread().getName();
        }
    }

    public static void main(String[] args) throws Exception {
        if (args[0].equals("server")) {
            int port = Integer.parseInt(args[1]);
            Registry registry = LocateRegistry.createRegistry(port);
            registry.rebind("worker", new Computing(port + 1));
            System.out.println("ready " + port);
            return; // the runtime's own threads go on
        }
        Registry registry = LocateRegistry.getRegistry(args[1], Integer.parseInt(args[2]));
        Worker worker = (Worker) registry.lookup("worker");
        for (int id = 1; id <= Integer.parseInt(args[3]); id++) {
            // System.nanoTime is CLOCK_MONOTONIC here
            long send = System.nanoTime();
            String thread = worker.compute(Integer.parseInt(args[4]));
            long received = System.nanoTime();
            System.out.printf("{\"side\":\"client\",\"pid\":%d,\"id\":%d,\"send_ns\":%d,\"received_ns\":%d,\"thread\":\"%s\"}%n",
                ProcessHandle.current().pid(), id, send, received, thread);
        }
    }
}
