/* Event loops, each with one of the habits that a library between it and the kernel can break. */
#include "common.h"
#include <sys/sendfile.h>

/* One read for each event; a short one means that there is no more, as epoll(7) allows for edge-triggered use. */
static int serve_once(int fd, int *closed)
{
	char in[4096];
	ssize_t r = read(fd, in, sizeof(in));
	*closed = r == 0;
	check(r >= 0 || errno == EAGAIN, "read");
	return r > 0 ? answer(fd, in, r) : 0;
}

/* A loop whose own system calls nobody stands before, as those of Go and of some Rust libraries: edge-triggered. */
static void unseen_edge(void)
{
	uint16_t port;
	struct epoll_event e = {.events = EPOLLIN};
	int ep = syscall(SYS_epoll_create1, 0), l = listen_here(&port), open = 0, done = 0, closed;
	e.data.fd = l;
	check(!syscall(SYS_epoll_ctl, ep, EPOLL_CTL_ADD, l, &e), "epoll_ctl");
	for (int i = 0; i < 4; i++)
		client(port, 3);
	while (done < 12 || open) {
		check(syscall(SYS_epoll_pwait, ep, &e, 1, 5000, NULL, 8) > 0, "nothing for five seconds");
		int fd = e.data.fd;
		if (fd == l) {
			struct epoll_event n = {.events = EPOLLIN | EPOLLET};
			check((n.data.fd = accept4(l, NULL, NULL, SOCK_NONBLOCK)) >= 0, "accept");
			check(!syscall(SYS_epoll_ctl, ep, EPOLL_CTL_ADD, n.data.fd, &n), "epoll_ctl");
			open++;
			continue;
		}
		done += serve_once(fd, &closed);
		if (closed) {
			close(fd);
			open--;
		}
	}
	printf("answered %d\n", done);
	reap(4);
}

/* `extra`: EPOLLET, EPOLLET | EPOLLONESHOT, or 0. */
static void epoll_server(uint32_t extra)
{
	uint16_t port;
	int ep = epoll_create1(0), l = listen_here(&port), open = 0, done = 0, total = 4 * 3;
	add(ep, l, EPOLLIN, l);
	for (int i = 0; i < 4; i++)
		client(port, 3);
	while (done < total || open) {
		struct epoll_event e[16];
		int n = epoll_wait(ep, e, 16, 5000);
		check(n > 0, "epoll_wait: nothing for five seconds");
		for (int i = 0; i < n; i++) {
			int fd = e[i].data.fd, closed;
			if (fd == l) {
				int c = accept4(l, NULL, NULL, SOCK_NONBLOCK);
				check(c >= 0, "accept");
				add(ep, c, EPOLLIN | extra, c);
				open++;
				continue;
			}
			done += serve_once(fd, &closed);
			if (closed) {
				close(fd);
				open--;
			} else if (extra & EPOLLONESHOT) {
				struct epoll_event again = {.events = EPOLLIN | extra, .data.fd = fd};
				check(!epoll_ctl(ep, EPOLL_CTL_MOD, fd, &again), "epoll_ctl");
			}
		}
	}
	printf("answered %d\n", done);
	reap(4);
}

static void edge(void) { epoll_server(EPOLLET); }
static void oneshot(void) { epoll_server(EPOLLET | EPOLLONESHOT); }
static void level(void) { epoll_server(0); }

/* Each child writes one byte and ends; the other ends are in `ep`, all readable. */
static void children_write(int ep, int count)
{
	for (int i = 0; i < count; i++) {
		int pair[2];
		check(!socketpair(AF_UNIX, SOCK_STREAM, 0, pair), "socketpair");
		if (!fork()) {
			write_all(pair[1], "x", 1);
			_exit(0);
		}
		close(pair[1]);
		add(ep, pair[0], EPOLLIN, pair[0]);
	}
	reap(count);
}

/* Two children write to their sockets; the inner instance has both, the outer one has the inner, edge-triggered. */
static void nested(void)
{
	int inner = epoll_create1(0), outer = epoll_create1(0), seen = 0;
	children_write(inner, 2);
	add(outer, inner, EPOLLIN | EPOLLET, inner);
	while (seen < 2) {
		struct epoll_event e[8];
		check(epoll_wait(outer, e, 8, 2000) == 1, "the outer instance");
		int n = epoll_wait(inner, e, 8, 0);
		check(n > 0, "the inner instance");
		for (int i = 0; i < n; i++) {
			char c;
			check(read(e[i].data.fd, &c, 1) == 1, "read");
			seen++;
		}
	}
	printf("both seen\n");
}

static void take(int ep, int fd)
{
	char c;
	check(read(fd, &c, 1) == 1, "read");
	check(!epoll_ctl(ep, EPOLL_CTL_DEL, fd, NULL), "epoll_ctl");
}

/* Looks for another input while the one that was given is not done with, as a server does in a long computation. */
__attribute__((noinline)) static int look(int ep)
{
	volatile char computed[4096];
	struct epoll_event e;
	for (size_t i = 0; i < sizeof(computed); i++)
		computed[i] = 1;
	int n = epoll_wait(ep, &e, 1, 0);
	if (n == 1)
		take(ep, e.data.fd);
	return n * computed[7];
}

/* Six children write; of three inputs that the loop gives, each handler looks once and is given another at once. */
static void within(void)
{
	int ep = epoll_create1(0);
	children_write(ep, 6);
	for (int i = 0; i < 3; i++) {
		struct epoll_event e;
		check(epoll_wait(ep, &e, 1, 2000) == 1, "the loop");
		take(ep, e.data.fd);
		printf("given within: %d\n", look(ep));
	}
}

enum { CLIENTS = 8, EACH = 5 };

static int shared_ep, shared_l, answered;

/* Until all is answered, however long the clients take to come. */
static void *worker(void *unused)
{
	while (__atomic_load_n(&answered, __ATOMIC_RELAXED) < CLIENTS * EACH) {
		struct epoll_event e[8];
		int n = epoll_wait(shared_ep, e, 8, 100);
		check(n >= 0, "epoll_wait");
		for (int i = 0; i < n; i++) {
			int fd = e[i].data.fd, closed;
			if (fd == shared_l) {
				int c = accept4(fd, NULL, NULL, SOCK_NONBLOCK);
				if (c >= 0)
					add(shared_ep, c, EPOLLIN | EPOLLET | EPOLLONESHOT, c);
				continue;
			}
			__atomic_add_fetch(&answered, serve_once(fd, &closed), __ATOMIC_RELAXED);
			if (closed)
				close(fd);
			else {
				struct epoll_event again = {.events = EPOLLIN | EPOLLET | EPOLLONESHOT, .data.fd = fd};
				check(!epoll_ctl(shared_ep, EPOLL_CTL_MOD, fd, &again), "epoll_ctl");
			}
		}
	}
	return NULL;
}

static void threads(void)
{
	uint16_t port;
	pthread_t t[2];
	shared_ep = epoll_create1(0);
	shared_l = listen_here(&port);
	nonblocking(shared_l);
	add(shared_ep, shared_l, EPOLLIN | EPOLLEXCLUSIVE, shared_l);
	for (int i = 0; i < CLIENTS; i++)
		client(port, EACH);
	for (int i = 0; i < 2; i++)
		check(!pthread_create(&t[i], NULL, worker, NULL), "pthread_create");
	for (int i = 0; i < 2; i++)
		pthread_join(t[i], NULL);
	printf("answered %d\n", answered);
	reap(CLIENTS);
}

/* Four sockets are ready. The handler of the first closes one, deletes one and gives one another word: nothing may come
 * for the two, and the third must come with its new word. */
static void stale(void)
{
	int ep = epoll_create1(0), fd[4];
	for (int i = 0; i < 4; i++) {
		int pair[2];
		check(!socketpair(AF_UNIX, SOCK_STREAM, 0, pair), "socketpair");
		if (!fork()) {
			write_all(pair[1], "x", 1);
			_exit(0);
		}
		close(pair[1]);
		fd[i] = pair[0];
	}
	reap(4);
	for (int i = 0; i < 4; i++)
		add(ep, fd[i], EPOLLIN | EPOLLET, i);
	struct epoll_event e[8];
	check(epoll_wait(ep, e, 1, 1000) == 1, "epoll_wait");
	int first = e[0].data.u64, a = (first + 1) % 4, b = (first + 2) % 4, c = (first + 3) % 4;
	close(fd[a]);
	check(!epoll_ctl(ep, EPOLL_CTL_DEL, fd[b], NULL), "delete");
	struct epoll_event other = {.events = EPOLLIN | EPOLLET, .data.u64 = 77};
	check(!epoll_ctl(ep, EPOLL_CTL_MOD, fd[c], &other), "modify");
	int count = 0, right = 0;
	for (int n; (n = epoll_wait(ep, e, 8, 100)) > 0;)
		for (int i = 0; i < n; i++) {
			count++;
			right += e[i].data.u64 == 77;
		}
	printf("%d more, %d with the new word\n", count, right);
}

#define MANY 12

/* Sockets that are ready all the time: each must be served as often as the others, whichever way is waited. */
static void fair(void)
{
	int fd[MANY], served[3][MANY] = {0}, ep = epoll_create1(0), most = 0;
	for (int i = 0; i < MANY; i++) {
		int pair[2];
		char big[4000] = "";
		check(!socketpair(AF_UNIX, SOCK_STREAM, 0, pair), "socketpair");
		if (!fork()) {
			write_all(pair[1], big, sizeof(big));
			_exit(0);
		}
		close(pair[1]);
		fd[i] = pair[0];
		most = fd[i] > most ? fd[i] : most;
		add(ep, fd[i], EPOLLIN, i);
	}
	reap(MANY);
	for (int way = 0; way < 3; way++)
		for (int round = 0; round < 20 * MANY; round++) {
			struct pollfd p[MANY];
			struct epoll_event e[MANY];
			fd_set set;
			int n = 0;
			FD_ZERO(&set);
			for (int i = 0; i < MANY; i++) {
				p[i] = (struct pollfd){.fd = fd[i], .events = POLLIN};
				FD_SET(fd[i], &set);
			}
			n = way == 0   ? poll(p, MANY, 1000)
			    : way == 1 ? select(most + 1, &set, NULL, NULL, NULL)
				       : epoll_wait(ep, e, MANY, 1000);
			int counted = 0;
			for (int i = 0; i < MANY; i++) {
				int ready = way == 0 ? !!p[i].revents : way == 1 ? !!FD_ISSET(fd[i], &set) : 0;
				served[way][i] += ready;
				counted += ready;
			}
			for (int i = 0; way == 2 && i < n; i++, counted++)
				served[way][e[i].data.u64]++;
			check(n == counted && n > 0, "the count is that of the ready ones");
			char c;
			for (int i = 0; i < MANY; i++)
				if (way == 0 ? p[i].revents : way == 1 ? FD_ISSET(fd[i], &set) : 0)
					check(read(fd[i], &c, 1) == 1, "read");
		}
	for (int way = 0; way < 3; way++) {
		int least = 1 << 30, top = 0;
		for (int i = 0; i < MANY; i++) {
			least = served[way][i] < least ? served[way][i] : least;
			top = served[way][i] > top ? served[way][i] : top;
		}
		printf("way %d: %s\n", way, least >= 15 && top - least <= 2 ? "fair" : "starved");
	}
}

/* One descriptor readable and writable: select counts it twice. */
static void both_sets(void)
{
	int pair[2];
	check(!socketpair(AF_UNIX, SOCK_STREAM, 0, pair), "socketpair");
	if (!fork()) {
		write_all(pair[1], "x", 1);
		_exit(0);
	}
	close(pair[1]);
	reap(1);
	fd_set r, w;
	FD_ZERO(&r);
	FD_ZERO(&w);
	FD_SET(pair[0], &r);
	FD_SET(pair[0], &w);
	struct timeval t = {1, 0};
	int n = select(pair[0] + 1, &r, &w, NULL, &t);
	/* the other end is closed: writable too */
	printf("select %d, readable %d, writable %d\n", n, !!FD_ISSET(pair[0], &r), !!FD_ISSET(pair[0], &w));
}

/* Reads of all kinds from a stream of pipelined requests: the bytes are those that were sent, whatever the pieces. */
static void pipelined(void)
{
	uint16_t port;
	int l = listen_here(&port), n = 60, got = 0, kind = 0;
	if (!fork()) {
		int c = connect_to(port);
		char all[8192] = "";
		for (int i = 0; i < n; i++)
			sprintf(all + strlen(all), "GET /%d HTTP/1.1\r\nContent-Length: %d\r\n\r\n%.*s", i, i % 7, i % 7, "abcdefg");
		write_all(c, all, strlen(all));
		shutdown(c, SHUT_WR);
		char in[16];
		while (read(c, in, sizeof(in)) > 0)
			;
		_exit(0);
	}
	int c = accept(l, NULL, NULL);
	check(c >= 0, "accept");
	usleep(100000); /* all of it has arrived */
	uint64_t hash = 1469598103934665603u;
	for (;; kind++) {
		char in[300];
		struct iovec v[3] = {{in, 7}, {in + 7, 100}, {in + 107, sizeof(in) - 107}};
		struct msghdr m = {.msg_iov = v, .msg_iovlen = 3};
		ssize_t r = kind % 5 == 0   ? read(c, in, sizeof(in))
			    : kind % 5 == 1 ? readv(c, v, 3)
			    : kind % 5 == 2 ? recv(c, in, sizeof(in), 0)
			    : kind % 5 == 3 ? recvmsg(c, &m, 0)
					    : recv(c, in, 5, MSG_WAITALL);
		check(r >= 0, "read");
		if (!r)
			break;
		check(m.msg_iovlen == 3 && v[0].iov_len == 7, "the program's own lists are as they were");
		for (int i = 0; i < r; i++)
			hash = (hash ^ (unsigned char)in[i]) * 1099511628211u;
		got += r;
	}
	printf("%d bytes, hash %llx\n", got, (unsigned long long)hash);
	close(c);
	reap(1);
}

/* What was left in the kernel is there for another process, for an exec'ed program and for a raw call. */
static void left_behind(void)
{
	uint16_t port;
	int l = listen_here(&port);
	if (!fork()) {
		int c = connect_to(port);
		write_all(c, REQUEST REQUEST REQUEST REQUEST, 4 * strlen(REQUEST));
		shutdown(c, SHUT_WR);
		_exit(0);
	}
	int c = accept(l, NULL, NULL), total = 0, n = 0;
	usleep(100000);
	char in[4096];
	ssize_t r = read(c, in, strlen(REQUEST));
	check(r == (ssize_t)strlen(REQUEST), "read");
	fflush(stdout);
	if (!fork()) {
		r = read(c, in, strlen(REQUEST));
		_exit(r == (ssize_t)strlen(REQUEST) ? 0 : 1);
	}
	reap(2);
	check(!ioctl(c, FIONREAD, &n), "ioctl");
	while ((r = syscall(SYS_read, c, in, sizeof(in))) > 0)
		total += r;
	printf("unread %d, then %d by raw calls\n", n, total);
}

/* Talks, says so, waits to be told to go on, talks again. */
static void in_the_middle(void)
{
	uint16_t port;
	char in[64];
	int l = listen_here(&port), hold[2];
	check(!pipe(hold), "pipe");
	if (!fork()) {
		int c = connect_to(port);
		close(hold[1]);
		for (int i = 0; i < 2; i++) {
			write_all(c, REQUEST, strlen(REQUEST));
			check(read(c, in, sizeof(in)) == (ssize_t)strlen(REPLY), "the reply");
			if (!i)
				read(hold[0], in, 1);
		}
		shutdown(c, SHUT_WR);
		_exit(0);
	}
	close(hold[0]);
	int c = accept(l, NULL, NULL);
	check(read(c, in, sizeof(in)) == (ssize_t)strlen(REQUEST), "the request");
	write_all(c, REPLY, strlen(REPLY));
	usleep(50000);
	write_all(1, "half\n", 5);
	read(0, in, 1);
	close(hold[1]);
	check(read(c, in, sizeof(in)) == (ssize_t)strlen(REQUEST), "the request");
	write_all(c, REPLY, strlen(REPLY));
	check(read(c, in, sizeof(in)) == 0, "the end");
	reap(1);
}

/* The server waits in accept, then in read, while its client waits to be told to go on. */
static void under_way(void)
{
	uint16_t port, other_port;
	char in[64];
	int l = listen_here(&port), other = listen_here(&other_port);
	if (!fork()) {
		int c = connect_to(port);
		for (int i = 0; i < 2; i++) {
			write_all(c, REQUEST, strlen(REQUEST));
			check(read(c, in, sizeof(in)) == (ssize_t)strlen(REPLY), "the reply");
		}
		usleep(50000);
		write_all(1, "half\n", 5);
		read(0, in, 1);
		write_all(c, REQUEST, strlen(REQUEST));
		check(read(c, in, sizeof(in)) == (ssize_t)strlen(REPLY), "the reply");
		close(c);
		close(connect_to(other_port));
		_exit(0);
	}
	if (!fork()) {
		int c = accept(l, NULL, NULL);
		while (read(c, in, sizeof(in)) > 0)
			write_all(c, REPLY, strlen(REPLY));
		_exit(0);
	}
	if (!fork()) {
		accept(other, NULL, NULL);
		_exit(0);
	}
	reap(3);
}

/* A server by poll or select, which takes one read for each descriptor that it is given. */
static void poll_server(int by_select)
{
	uint16_t port;
	int l = listen_here(&port), done = 0, open = 0, fds[8] = {l}, n = 1;
	for (int i = 0; i < 4; i++)
		client(port, 3);
	while (done < 12 || open) {
		struct pollfd p[8];
		fd_set set;
		FD_ZERO(&set);
		for (int i = 0; i < n; i++) {
			p[i] = (struct pollfd){.fd = fds[i], .events = POLLIN};
			if (fds[i] >= 0)
				FD_SET(fds[i], &set);
		}
		struct timeval t = {5, 0};
		check((by_select ? select(64, &set, NULL, NULL, &t) : poll(p, n, 5000)) > 0, "nothing for five seconds");
		for (int i = 0, all = n; i < all; i++) {
			int closed, ready = fds[i] >= 0 && (by_select ? FD_ISSET(fds[i], &set) : p[i].revents);
			if (!ready)
				continue;
			if (fds[i] == l) {
				check((fds[n] = accept(l, NULL, NULL)) >= 0, "accept");
				n++;
				open++;
				continue;
			}
			done += serve_once(fds[i], &closed);
			if (closed) {
				close(fds[i]);
				fds[i] = -1;
				open--;
			}
		}
	}
	printf("answered %d\n", done);
	reap(4);
}

static void by_poll(void) { poll_server(0); }
static void by_select(void) { poll_server(1); }

/* The socket is readable for 40 bytes and more: what is left of a read that was made short could be too little. */
static void low_mark(void)
{
	uint16_t port;
	int l = listen_here(&port), mark = 40, closed, done = 0;
	client(port, 2);
	int c = accept(l, NULL, NULL);
	check(!setsockopt(c, SOL_SOCKET, SO_RCVLOWAT, &mark, sizeof(mark)), "setsockopt");
	while (done < 2) {
		struct pollfd p = {.fd = c, .events = POLLIN};
		check(poll(&p, 1, 3000) == 1, "nothing for three seconds");
		done += serve_once(c, &closed);
	}
	printf("answered %d\n", done);
	reap(1);
}

/* Datagrams, singly and several at once, with and without addresses. */
static void datagrams(void)
{
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)}, from;
	socklen_t len = sizeof(a);
	int s = socket(AF_INET, SOCK_DGRAM, 0), total = 0;
	check(!bind(s, (void *)&a, len) && !getsockname(s, (void *)&a, &len), "bind");
	if (!fork()) {
		char in[100];
		int c = socket(AF_INET, SOCK_DGRAM, 0);
		struct iovec v[2] = {{"three", 5}, {"four", 4}};
		struct mmsghdr m[2] = {{{.msg_iov = &v[0], .msg_iovlen = 1}}, {{.msg_iov = &v[1], .msg_iovlen = 1}}};
		check(sendto(c, "one", 3, 0, (void *)&a, sizeof(a)) == 3, "sendto");
		check(!connect(c, (void *)&a, sizeof(a)), "connect");
		check(send(c, "two", 3, 0) == 3 && sendmmsg(c, m, 2, 0) == 2, "send");
		check(recv(c, in, sizeof(in), 0) == 5, "recv");
		_exit(0);
	}
	char in[4][100];
	len = sizeof(from);
	check((total += recvfrom(s, in[0], 100, 0, (void *)&from, &len)) == 3, "recvfrom");
	check(from.sin_family == AF_INET && from.sin_port, "it has an address");
	struct iovec v[3] = {{in[1], 100}, {in[2], 100}, {in[3], 100}};
	struct mmsghdr m[3] = {{{.msg_iov = &v[0], .msg_iovlen = 1}},
			       {{.msg_iov = &v[1], .msg_iovlen = 1}},
			       {{.msg_iov = &v[2], .msg_iovlen = 1}}};
	usleep(100000);
	int n = recvmmsg(s, m, 3, MSG_WAITFORONE, NULL);
	for (int i = 0; i < n; i++)
		total += m[i].msg_len;
	check(sendto(s, "reply", 5, 0, (void *)&from, len) == 5, "sendto");
	printf("%d datagrams more, %d bytes\n", n, total);
	reap(1);
}

/* Bytes that pass through no buffer of the program. */
static void zero_copy(void)
{
	uint16_t port;
	int l = listen_here(&port), file = open("/proc/self/exe", O_RDONLY), p[2], total = 0;
	check(!pipe(p) && file >= 0, "pipe");
	if (!fork()) {
		int c = connect_to(port);
		off_t at = 100;
		check(sendfile(c, file, &at, 5000) == 5000, "sendfile");
		shutdown(c, SHUT_WR);
		char in[10000];
		ssize_t n = 0, r;
		while ((r = read(c, in + n, sizeof(in) - n)) > 0)
			n += r;
		char own[5000];
		check(pread(file, own, 5000, 100) == 5000, "pread");
		_exit(n != 5000 || memcmp(in, own, 5000));
	}
	int c = accept(l, NULL, NULL);
	for (ssize_t r; (r = splice(c, NULL, p[1], NULL, 10000, 0)) > 0; total += r)
		check(splice(p[0], NULL, c, NULL, r, 0) == r, "splice");
	shutdown(c, SHUT_WR);
	printf("%d bytes there and back\n", total);
	reap(1);
}

int main(int argc, char **argv)
{
	static const struct part all[] = {{"edge", edge},	 {"oneshot", oneshot}, {"level", level},	 {"nested", nested},
		   {"within", within},
		   {"threads", threads}, {"stale", stale},     {"fair", fair},		 {"both_sets", both_sets},
		   {"pipelined", pipelined}, {"left_behind", left_behind}, {"in_the_middle", in_the_middle}, {"under_way", under_way},
		   {"by_poll", by_poll}, {"by_select", by_select}, {"low_mark", low_mark}, {"datagrams", datagrams},
		   {"zero_copy", zero_copy}, {"unseen_edge", unseen_edge}};
	begin(30);
	return play(argc, argv, all, sizeof(all) / sizeof(*all));
}
