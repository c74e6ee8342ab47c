/* Ways that bytes and events take beside read, write and epoll_wait. */
#include "common.h"
#include <aio.h>
#include <linux/aio_abi.h>
#include <netdb.h>
#include <sys/signalfd.h>

ssize_t __read_chk(int, void *, size_t, size_t);
ssize_t __recv_chk(int, void *, size_t, size_t, int);
ssize_t __recvfrom_chk(int, void *, size_t, size_t, int, struct sockaddr *, socklen_t *);
int __poll_chk(struct pollfd *, nfds_t, int, size_t);
int __ppoll_chk(struct pollfd *, nfds_t, const struct timespec *, const sigset_t *, size_t);

static int pair[2];

static void make_pair(void) { check(!socketpair(AF_UNIX, SOCK_STREAM, 0, pair), "socketpair"); }

/* What compilers make of read, recv and poll where the buffer's size is known. */
static void fortified(void)
{
	char in[64];
	struct pollfd p;
	struct timespec t = {5, 0};
	make_pair();
	p = (struct pollfd){.fd = pair[0], .events = POLLIN};
	write_all(pair[1], "12345", 5);
	check(__poll_chk(&p, 1, 5000, sizeof(p)) == 1 && __ppoll_chk(&p, 1, &t, NULL, sizeof(p)) == 1, "poll");
	check(__read_chk(pair[0], in, 1, sizeof(in)) == 1, "read");
	check(__recv_chk(pair[0], in, 2, sizeof(in), 0) == 2, "recv");
	check(__recvfrom_chk(pair[0], in, 64, sizeof(in), 0, NULL, NULL) == 2, "recvfrom");
	/* a buffer that is too small ends the program, with or without us */
	fflush(stdout);
	pid_t pid = fork();
	int status;
	if (!pid) {
		close(2);
		__read_chk(pair[0], in, 100, sizeof(in));
		_exit(0);
	}
	waitpid(pid, &status, 0);
	printf("%s\n", WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT ? "aborted" : "it went on");
}

static void vectors(void)
{
	char in[16];
	struct iovec out = {"vector", 6}, v[2] = {{in, 2}, {in + 2, 14}};
	make_pair();
	check(pwritev2(pair[1], &out, 1, -1, 0) == 6, "pwritev2");
	check(preadv2(pair[0], v, 2, -1, 0) == 6 && !memcmp(in, "vector", 6), "preadv2");
	printf("%zd", preadv2(pair[0], v, 2, 10, 0));
	printf(" %s\n", strerror(errno));
}

/* Calls that are made by their numbers. */
static void by_number(void)
{
	char in[16];
	make_pair();
	check(syscall(SYS_write, pair[1], "one", 3) == 3, "write");
	check(syscall(SYS_sendto, pair[1], "three", 5, 0, NULL, 0) == 5, "sendto");
	check(syscall(SYS_recvfrom, pair[0], in, 3, MSG_PEEK, NULL, NULL) == 3, "peek");
	check(syscall(SYS_read, pair[0], in, 3) == 3 && !memcmp(in, "one", 3), "read");
	check(syscall(SYS_recvfrom, pair[0], in, 16, 0, NULL, NULL) == 5 && !memcmp(in, "three", 5), "recvfrom");
}

static void peeked(void)
{
	char in[16];
	make_pair();
	write_all(pair[1], "look", 4);
	for (int i = 0; i < 3; i++)
		check(recv(pair[0], in, 16, MSG_PEEK) == 4, "peek");
	check(recv(pair[0], in, 16, 0) == 4, "recv");
}

/* A server by epoll_pwait2. */
static void pwait2(void)
{
	uint16_t port;
	struct timespec t = {5, 0};
	int ep = epoll_create1(0), l = listen_here(&port), done = 0, open = 0;
	add(ep, l, EPOLLIN, l);
	for (int i = 0; i < 4; i++)
		client(port, 3);
	while (done < 12 || open) {
		struct epoll_event e[16];
		int n = epoll_pwait2(ep, e, 16, &t, NULL);
		if (n < 0 && errno == ENOSYS) {
			printf("no epoll_pwait2\n");
			_exit(0);
		}
		check(n > 0, "nothing for five seconds");
		for (int i = 0; i < n; i++) {
			int fd = e[i].data.fd;
			char in[4096];
			if (fd == l) {
				int c = accept4(l, NULL, NULL, SOCK_NONBLOCK);
				add(ep, c, EPOLLIN, c);
				open++;
				continue;
			}
			ssize_t r = read(fd, in, sizeof(in));
			if (r > 0)
				done += answer(fd, in, r);
			if (r == 0) {
				close(fd);
				open--;
			}
		}
	}
	printf("answered %d\n", done);
	reap(4);
}

/* A loop that is told of signals by a descriptor. */
static void signals(void)
{
	sigset_t set;
	struct signalfd_siginfo info;
	struct epoll_event e;
	int ep = epoll_create1(0), fd = -1, count = 0;
	make_pair();
	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	check(!sigprocmask(SIG_BLOCK, &set, NULL) && (fd = signalfd(-1, &set, SFD_NONBLOCK)) >= 0, "signalfd");
	check(signalfd(fd, &set, 0) == fd, "its set again");
	add(ep, fd, EPOLLIN, 1);
	add(ep, pair[0], EPOLLIN, 2);
	raise(SIGUSR1);
	write_all(pair[1], "x", 1);
	for (char c; count < 2; count++) {
		check(epoll_wait(ep, &e, 1, 5000) == 1, "epoll_wait");
		if (e.data.u64 == 1)
			check(read(fd, &info, sizeof(info)) == sizeof(info) && info.ssi_signo == SIGUSR1, "the signal");
		else
			check(read(pair[0], &c, 1) == 1, "the byte");
	}
	printf("%d inputs\n", count);
}

/* Streams of the C library on a connection. */
static void streams(void)
{
	char in[64];
	make_pair();
	FILE *out = fdopen(pair[1], "w"), *from = fdopen(pair[0], "r");
	check(out && from && fprintf(out, "a line\n") == 7 && !fflush(out), "fprintf");
	check(fgets(in, sizeof(in), from) != NULL, "fgets");
	printf("%s", in);
	check(!fclose(out) && fgets(in, sizeof(in), from) == NULL && !fclose(from), "fclose");
}

/* A name is asked for: by calls of the C library's own. */
static void resolver(void)
{
	struct addrinfo hints = {.ai_family = AF_INET, .ai_socktype = SOCK_STREAM}, *found = NULL;
	int r = getaddrinfo("localhost", "80", &hints, &found);
	printf("%s\n", r ? "no localhost" : "found");
	if (found)
		freeaddrinfo(found);
}

/* POSIX's asynchronous calls, on a connection: a thread of the C library makes them. */
static void aio(void)
{
	char in[8] = "";
	struct aiocb w = {.aio_fildes = 0, .aio_buf = "async", .aio_nbytes = 5}, r = {.aio_buf = in, .aio_nbytes = 5};
	const struct aiocb *both[2] = {&w, &r};
	make_pair();
	w.aio_fildes = pair[1];
	r.aio_fildes = pair[0];
	check(!aio_write(&w) && !aio_read(&r), "aio");
	while (aio_error(&w) == EINPROGRESS || aio_error(&r) == EINPROGRESS)
		aio_suspend(both, 2, NULL);
	printf("%zd %zd %s\n", aio_return(&w), aio_return(&r), in);
}

/* Linux's own. */
static void submitted(void)
{
	char in[8] = "";
	aio_context_t context = 0;
	struct io_event done;
	make_pair();
	struct iocb w = {.aio_fildes = pair[1], .aio_lio_opcode = IOCB_CMD_PWRITE, .aio_buf = (uintptr_t) "async", .aio_nbytes = 5};
	struct iocb *all[1] = {&w};
	if (syscall(SYS_io_setup, 4, &context)) {
		printf("no io_setup\n");
		return;
	}
	check(syscall(SYS_io_submit, context, 1, all) == 1, "io_submit");
	check(syscall(SYS_io_getevents, context, 1, 1, &done, NULL) == 1, "io_getevents");
	printf("%lld\n", (long long)done.res);
	check(read(pair[0], in, 5) == 5, "read");
	printf("%s\n", in);
}

/* A byte of its own beside the stream. */
static void urgent(void)
{
	uint16_t port;
	char in[16];
	int l = listen_here(&port), c = connect_to(port), s = accept(l, NULL, NULL);
	check(send(c, "before", 6, 0) == 6 && send(c, "!", 1, MSG_OOB) == 1 && send(c, "behind", 6, 0) == 6, "send");
	usleep(50000);
	check(recv(s, in, 6, MSG_WAITALL) == 6, "recv");
	check(recv(s, in, 1, MSG_OOB) == 1 && in[0] == '!', "the urgent byte");
	check(recv(s, in, 6, MSG_WAITALL) == 6 && !memcmp(in, "behind", 6), "recv");
	check(send(s, "answer", 6, 0) == 6 && recv(c, in, 16, 0) == 6, "the answer");
}

int main(int argc, char **argv)
{
	static const struct part all[] = {{"fortified", fortified}, {"vectors", vectors},   {"by_number", by_number}, {"peeked", peeked},
		   {"pwait2", pwait2},	     {"signals", signals},   {"streams", streams},     {"resolver", resolver},
		   {"aio", aio},	     {"submitted", submitted}, {"urgent", urgent}};
	begin(30);
	return play(argc, argv, all, sizeof(all) / sizeof(*all));
}
