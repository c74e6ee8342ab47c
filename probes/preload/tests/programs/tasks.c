/* Processes, threads, signals and descriptors that travel. */
#include "common.h"
#include <linux/seccomp.h>
#include <sys/prctl.h>

extern char **environ;

static void say_exit(pid_t pid)
{
	int status;
	check(waitpid(pid, &status, 0) == pid, "waitpid");
	printf("child ended with %d\n", WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status));
}

/* The child of a vfork shares this memory: what it does to its descriptors must not be taken for ours. */
static void vforked(void)
{
	int p[2], q[2];
	char in[64] = "";
	check(!pipe(p) && !pipe(q), "pipe");
	pid_t pid = vfork();
	if (!pid) {
		close(p[0]);
		dup2(p[1], 1);
		close(p[1]);
		close(q[0]);
		close(q[1]);
		execl("/bin/echo", "echo", "from the child", (char *)NULL);
		_exit(9);
	}
	close(p[1]);
	for (ssize_t n = 0, r; (r = read(p[0], in + n, sizeof(in) - 1 - n)) > 0;)
		n += r;
	printf("%s", in);
	say_exit(pid);
	write_all(q[1], "still here", 10);
	memset(in, 0, sizeof(in));
	check(read(q[0], in, sizeof(in)) == 10, "read");
	printf("%s\n", in);
	pid = vfork();
	if (!pid)
		_exit(7);
	say_exit(pid);
}

static void spawned(void)
{
	char *args[] = {"sh", "-c", "exit 5", NULL}, *bare[] = {NULL};
	pid_t pid;
	check(!posix_spawn(&pid, "/bin/sh", NULL, NULL, args, environ), "posix_spawn");
	say_exit(pid);
	check(!posix_spawnp(&pid, "sh", NULL, NULL, args, bare), "posix_spawnp");
	say_exit(pid);
	printf("no such program: %d\n", posix_spawn(&pid, "/nonexistent", NULL, NULL, args, environ));
	errno = 0;
	check(execve("/nonexistent", args, environ) == -1, "execve");
	printf("execve: %s\n", strerror(errno));
	if (!(pid = fork())) {
		/* a program of a cleared environment is watched too */
		char *argv[] = {"env", NULL};
		execve("/usr/bin/true", argv, bare);
		_exit(9);
	}
	say_exit(pid);
}

static void closed_ranges(void)
{
	int p[2], fd = -1;
	char c;
	check(!pipe(p), "pipe");
	check(!close_range(p[0], p[1], 0), "close_range");
	check(read(p[0], &c, 1) == -1 && errno == EBADF, "it is closed");
	check((fd = open("/proc/self/stat", O_RDONLY)) == p[0], "the number is used again");
	check(read(fd, &c, 1) == 1 && c >= '0' && c <= '9', "by a file");
	closefrom(3);
	check(read(fd, &c, 1) == -1 && errno == EBADF, "closed");
	printf("closed\n");
}

static void send_fd(int by, int fd)
{
	char c = 'x', control[CMSG_SPACE(sizeof(int))] = "";
	struct iovec v = {&c, 1};
	struct msghdr m = {.msg_iov = &v, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof(control)};
	struct cmsghdr *h = CMSG_FIRSTHDR(&m);
	h->cmsg_level = SOL_SOCKET;
	h->cmsg_type = SCM_RIGHTS;
	h->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(h), &fd, sizeof(int));
	check(sendmsg(by, &m, 0) == 1, "sendmsg");
}

static int receive_fd(int by)
{
	char c, control[CMSG_SPACE(sizeof(int))];
	struct iovec v = {&c, 1};
	struct msghdr m = {.msg_iov = &v, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof(control)};
	int fd;
	check(recvmsg(by, &m, 0) == 1, "recvmsg");
	check(CMSG_FIRSTHDR(&m) != NULL, "a descriptor came");
	memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&m)), sizeof(int));
	return fd;
}

/* A connection with unread requests in it goes to another process, which answers the rest. */
static void passed(void)
{
	uint16_t port;
	int l, pair[2], open_fds = 0;
	for (int i = 3; i < 64; i++)
		open_fds -= fcntl(i, F_GETFD) != -1;
	l = listen_here(&port);
	check(!socketpair(AF_UNIX, SOCK_STREAM, 0, pair), "socketpair");
	client(port, 3);
	int c = accept(l, NULL, NULL);
	usleep(100000);
	char in[4096];
	ssize_t r = read(c, in, strlen(REQUEST));
	check(answer(c, in, r) == 1, "one request");
	if (!fork()) {
		close(c);
		close(pair[0]);
		int fd = receive_fd(pair[1]);
		for (int done = 0; done < 2;) {
			r = read(fd, in, sizeof(in));
			check(r > 0, "read");
			done += answer(fd, in, r);
		}
		for (int i = 3; i < 64; i++)
			open_fds += fcntl(i, F_GETFD) != -1;
		_exit(open_fds == 3 ? 0 : open_fds);
	}
	send_fd(pair[0], c);
	close(c);
	reap(2);
}

static void cleaned(void *what) { printf("cleaned up %s\n", (char *)what); }

static int waiting_fd, waiting_ep;

static void *in_read(void *u)
{
	char c;
	pthread_cleanup_push(cleaned, "read");
	read(waiting_fd, &c, 1);
	pthread_cleanup_pop(0);
	return u;
}

static void *in_recv(void *u)
{
	char c;
	pthread_cleanup_push(cleaned, "recv");
	recv(waiting_fd, &c, 1, 0);
	pthread_cleanup_pop(0);
	return u;
}

static void *in_poll(void *u)
{
	struct pollfd p = {.fd = waiting_fd, .events = POLLIN};
	pthread_cleanup_push(cleaned, "poll");
	poll(&p, 1, -1);
	pthread_cleanup_pop(0);
	return u;
}

static void *in_epoll(void *u)
{
	struct epoll_event e;
	pthread_cleanup_push(cleaned, "epoll_wait");
	epoll_wait(waiting_ep, &e, 1, -1);
	pthread_cleanup_pop(0);
	return u;
}

static void *in_select(void *u)
{
	fd_set s;
	FD_ZERO(&s);
	FD_SET(waiting_fd, &s);
	pthread_cleanup_push(cleaned, "select");
	select(waiting_fd + 1, &s, NULL, NULL, NULL);
	pthread_cleanup_pop(0);
	return u;
}

static void *in_accept(void *u)
{
	uint16_t port;
	int l = listen_here(&port);
	pthread_cleanup_push(cleaned, "accept");
	accept(l, NULL, NULL);
	pthread_cleanup_pop(0);
	return u;
}

static void *leaves(void *u)
{
	pthread_exit((void *)5);
	return u;
}

/* Threads that are cancelled while they wait, on a connection of another process, so that it is isolated. */
static void cancelled(void)
{
	void *(*all[])(void *) = {in_read, in_recv, in_poll, in_epoll, in_select, in_accept};
	uint16_t port;
	int l = listen_here(&port), hold[2];
	check(!pipe(hold), "pipe");
	if (!fork()) {
		char c;
		connect_to(port);
		close(hold[1]);
		_exit(read(hold[0], &c, 1) != 0);
	}
	waiting_fd = accept(l, NULL, NULL);
	waiting_ep = epoll_create1(0);
	add(waiting_ep, waiting_fd, EPOLLIN, 1);
	for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++) {
		pthread_t t;
		void *result;
		check(!pthread_create(&t, NULL, all[i], NULL), "pthread_create");
		usleep(50000);
		pthread_cancel(t);
		pthread_join(t, &result);
		printf("%s\n", result == PTHREAD_CANCELED ? "cancelled" : "it went on");
	}
	pthread_t t;
	void *result;
	pthread_create(&t, NULL, leaves, NULL);
	pthread_join(t, &result);
	printf("left with %ld\n", (long)result);
	close(hold[1]);
	reap(1);
}

static volatile sig_atomic_t signals, in_handler;
static int handler_fd;

static void on_signal(int n)
{
	int saved = errno;
	signals++;
	if (handler_fd) {
		write(handler_fd, "s", 1);
		in_handler++;
	}
	errno = saved;
}

static void *pester(void *main_thread)
{
	for (int i = 0; i < 5; i++) {
		usleep(40000);
		pthread_kill(*(pthread_t *)main_thread, SIGUSR1);
	}
	return NULL;
}

/* Calls that a signal interrupts fail with EINTR, those that succeed leave errno alone. */
static void interrupted(void)
{
	struct sigaction a = {.sa_handler = on_signal};
	pthread_t t, self = pthread_self();
	uint16_t port;
	int l = listen_here(&port), pair[2], ep = epoll_create1(0);
	check(!socketpair(AF_UNIX, SOCK_STREAM, 0, pair), "socketpair");
	handler_fd = pair[1];
	struct epoll_event e;
	struct pollfd p = {.fd = l, .events = POLLIN};
	fd_set s;
	char c;
	add(ep, l, EPOLLIN, 1);
	sigaction(SIGUSR1, &a, NULL);
	check(!pthread_create(&t, NULL, pester, &self), "pthread_create");
	errno = 0;
	printf("poll %d", poll(&p, 1, -1));
	printf(" %s\n", strerror(errno));
	errno = 0;
	printf("epoll_wait %d", epoll_wait(ep, &e, 1, -1));
	printf(" %s\n", strerror(errno));
	FD_ZERO(&s);
	FD_SET(l, &s);
	errno = 0;
	printf("select %d", select(l + 1, &s, NULL, NULL, NULL));
	printf(" %s\n", strerror(errno));
	errno = 0;
	printf("accept %d", accept(l, NULL, NULL));
	printf(" %s\n", strerror(errno));
	int q[2];
	check(!pipe(q), "pipe");
	errno = 0;
	printf("read %zd", read(q[0], &c, 1));
	printf(" %s\n", strerror(errno));
	pthread_join(t, NULL);
	errno = 77;
	check(write(q[1], "x", 1) == 1 && read(q[0], &c, 1) == 1, "pipe");
	check(poll(&p, 1, 0) == 0 && epoll_wait(ep, &e, 1, 0) == 0, "nothing");
	int d = dup(q[0]);
	check(d > 0 && !close(d), "dup");
	printf("errno %d, %d signals, %d in handlers\n", errno, signals, in_handler);
}

static void *writer(void *fd)
{
	for (int i = 0; i < 20000; i++)
		write_all(*(int *)fd, "0123456789abcdef", 16);
	return NULL;
}

/* Two threads that read one connection: all bytes come, to either. */
static long shared_total;
static void *reader(void *fd)
{
	char in[1000];
	for (ssize_t r; (r = read(*(int *)fd, in, sizeof(in))) > 0;)
		__atomic_add_fetch(&shared_total, r, __ATOMIC_RELAXED);
	return NULL;
}

static void two_readers(void)
{
	int pair[2];
	pthread_t t[2];
	check(!socketpair(AF_UNIX, SOCK_STREAM, 0, pair), "socketpair");
	if (!fork()) {
		close(pair[0]);
		writer(&pair[1]);
		_exit(0);
	}
	close(pair[1]);
	for (int i = 0; i < 2; i++)
		pthread_create(&t[i], NULL, reader, &pair[0]);
	for (int i = 0; i < 2; i++)
		pthread_join(t[i], NULL);
	printf("%ld bytes\n", shared_total);
	reap(1);
}

/* Another program, given by its path: it says something and ends. */
static const char *other;

static void executed(void)
{
	char *argv[] = {(char *)other, "hello", NULL};
	pid_t pid = fork();
	if (!pid) {
		execv(other, argv);
		_exit(9);
	}
	say_exit(pid);
}

/* What goes through io_uring is seen by nobody here. */
static void ring(void)
{
	char parameters[120] = "";
	printf("%s\n", syscall(SYS_io_uring_setup, 1, parameters) >= 0 ? "a ring" : "no ring");
}

/* A program that forbids itself system calls: none of ours may be the one that it is killed for. */
static void sandboxed(void)
{
	int p[2];
	char c;
	check(!pipe(p), "pipe");
	fflush(stdout);
	pid_t pid = fork();
	if (!pid) {
		check(!prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT), "prctl");
		write(p[1], "x", 1);
		read(p[0], &c, 1);
		write(1, "alive\n", 6);
		syscall(SYS_exit, 0);
	}
	say_exit(pid);
}

/* A thread makes another program of the process. */
static void *exec_now(void *u)
{
	execl("/bin/echo", "echo", "by a thread", (char *)NULL);
	return u;
}

static void thread_exec(void)
{
	pthread_t t;
	fflush(stdout);
	pthread_create(&t, NULL, exec_now, NULL);
	pthread_join(t, NULL);
}

int main(int argc, char **argv)
{
	static const struct part all[] = {{"vforked", vforked},	 {"spawned", spawned},	 {"closed_ranges", closed_ranges}, {"passed", passed},
		   {"cancelled", cancelled}, {"interrupted", interrupted}, {"two_readers", two_readers},
		   {"executed", executed},   {"thread_exec", thread_exec}, {"ring", ring}, {"sandboxed", sandboxed}};
	begin(30);
	other = argc > 2 ? argv[2] : "/bin/true";
	return play(argc, argv, all, sizeof(all) / sizeof(*all));
}
