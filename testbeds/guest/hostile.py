"""Makes system calls with wild pointers, lengths and forged structs, from several threads, while another takes the memory away
and gives it back. The guest's kernel refuses nearly all; whoever reads along from below must refuse them as well."""

import ctypes
import random
import socket
import threading

CALLS, THREADS, BYTES = 2000, 4, 8192
# read, write, readv, writev, sendto, recvfrom, sendmsg, recvmsg, sendmmsg, recvmmsg, connect, accept, accept4, shutdown, listen,
# epoll_wait, clone3 (without flags that a kernel takes), splice, sendfile, and one of the ABI of 32-bit pointers
NUMBERS = [0, 1, 19, 20, 44, 45, 46, 47, 307, 299, 42, 43, 288, 48, 50, 232, 435, 275, 40, 1 << 30]
MPROTECT, READ_WRITE = 10, 3

libc = ctypes.CDLL(None)
libc.mmap.restype = ctypes.c_void_p
# what is received into the last bytes ends in memory that nobody may write, and not in that of the program
shared = libc.mmap(None, ctypes.c_size_t(64 << 20), 0, 0x22, -1, ctypes.c_long(0))
libc.mprotect(ctypes.c_void_p(shared), ctypes.c_size_t(BYTES), READ_WRITE)
POINTERS = [0, 1, -1, 0xFFFFFFFF81000000, 0xFFFF888000000000, 1 << 47, (1 << 47) - 1, 0xFEE00000]
POINTERS += [shared, shared + 4090, shared + BYTES - 1]
is_over = threading.Event()


def syscall(number, *arguments):
    libc.syscall(ctypes.c_long(number), *(ctypes.c_ulong(a & (2**64 - 1)) for a in arguments))


def take_away():
    while not is_over.is_set():
        for protection in (0, READ_WRITE):
            syscall(MPROTECT, shared, 4096, protection)


def forge(chance):
    """Pointers where the kernel, and we, expect vectors, messages and addresses."""
    words = [chance.choice(POINTERS) & (2**64 - 1) for _ in range(8)]
    source = (ctypes.c_uint64 * 8)(*words)
    # through the kernel: the page may not be there
    read_end, write_end = socket.socketpair()
    with read_end, write_end:
        write_end.send(bytes(source))
        syscall(0, read_end.fileno(), shared + 64 * chance.randrange(128), 64)


def wild(seed):
    chance = random.Random(seed)
    pair = socket.socketpair()
    datagrams = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    for s in (*pair, datagrams):
        s.setblocking(False)
    files = [s.fileno() for s in (*pair, datagrams)] + [-1, 1 << 31]
    for i in range(CALLS):
        if i % 8 == 0:
            forge(chance)
        length = chance.choice([0, 1, 64, 5000, -1, 1 << 40])
        # an epoll_wait that is refused at once, and flags without the one that waits
        rest = [0x42 & chance.getrandbits(8), chance.choice(POINTERS), chance.randrange(64)]
        syscall(chance.choice(NUMBERS), chance.choice(files), chance.choice(POINTERS), length, *rest)


taker = threading.Thread(target=take_away)
callers = [threading.Thread(target=wild, args=(seed,)) for seed in range(THREADS)]
for thread in (taker, *callers):
    thread.start()
for thread in callers:
    thread.join()
is_over.set()
taker.join()
print("HOSTILE DONE")
