/* Threads that hand requests to each other, beside threads of other habits: none may be starved or held up for ever. */
#include "common.h"

enum { CLIENTS = 6, EACH = 10, QUEUE = 64 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t filled = PTHREAD_COND_INITIALIZER;
static int queue[QUEUE], queued, answered, waker = -1, back[QUEUE], at_back;
static volatile int over;

static void *worker(void *unused)
{
	for (;;) {
		int closed;
		pthread_mutex_lock(&lock);
		while (!queued && !over)
			pthread_cond_wait(&filled, &lock);
		if (over) {
			pthread_mutex_unlock(&lock);
			return NULL;
		}
		int fd = queue[--queued];
		pthread_mutex_unlock(&lock);
		char in[4096];
		ssize_t r = read(fd, in, sizeof(in));
		closed = r == 0;
		check(r >= 0 || errno == EAGAIN, "read");
		__atomic_add_fetch(&answered, r > 0 ? answer(fd, in, r) : 0, __ATOMIC_RELAXED);
		/* the loop arms it again, or closes it */
		pthread_mutex_lock(&lock);
		back[at_back++] = closed ? -fd : fd;
		pthread_mutex_unlock(&lock);
		check(eventfd_write(waker, 1) == 0, "eventfd");
	}
}

/* The workers end when they find nothing more to do. */
static void dismiss(pthread_t *t, int n)
{
	pthread_mutex_lock(&lock);
	over = 1;
	pthread_cond_broadcast(&filled);
	pthread_mutex_unlock(&lock);
	for (int i = 0; i < n; i++)
		pthread_join(t[i], NULL);
}

/* A loop takes events, a worker reads and answers, an eventfd tells the loop. `extra`: EPOLLET or 0. */
static void stages_by(uint32_t extra)
{
	uint16_t port;
	pthread_t t[2];
	int ep = epoll_create1(0), l = listen_here(&port), open = 0, ended = 0;
	waker = eventfd(0, EFD_NONBLOCK);
	add(ep, l, EPOLLIN, l);
	add(ep, waker, EPOLLIN | extra, waker);
	for (int i = 0; i < CLIENTS; i++)
		client(port, EACH);
	for (int i = 0; i < 2; i++)
		check(!pthread_create(&t[i], NULL, worker, NULL), "pthread_create");
	while (ended < CLIENTS) {
		struct epoll_event e[8];
		int n = epoll_wait(ep, e, 8, 10000);
		check(n > 0, "epoll_wait: nothing for ten seconds");
		for (int i = 0; i < n; i++) {
			int fd = e[i].data.fd;
			if (fd == l) {
				int c = accept4(l, NULL, NULL, SOCK_NONBLOCK);
				check(c >= 0, "accept");
				add(ep, c, EPOLLIN | EPOLLONESHOT | extra, c);
				open++;
				continue;
			}
			pthread_mutex_lock(&lock);
			if (fd == waker) {
				eventfd_t unused;
				eventfd_read(waker, &unused);
				while (at_back > 0) {
					int of = back[--at_back];
					struct epoll_event again = {.events = EPOLLIN | EPOLLONESHOT | extra, .data.fd = of};
					if (of < 0) {
						close(-of);
						ended++;
					} else
						check(!epoll_ctl(ep, EPOLL_CTL_MOD, of, &again), "epoll_ctl");
				}
			} else {
				queue[queued++] = fd;
				pthread_cond_signal(&filled);
			}
			pthread_mutex_unlock(&lock);
		}
	}
	dismiss(t, 2);
	printf("answered %d of %d\n", answered, open * EACH);
}

static void stages(void)
{
	stages_by(0);
	reap(CLIENTS);
}

static void stages_edge(void)
{
	stages_by(EPOLLET);
	reap(CLIENTS);
}

enum { FDS = 1024, ROUNDS = 100, TOGETHER = 4 };

static int events[FDS], served, shared_ep;

/* A client of its own process, many times: `TOGETHER` requests in one segment, all replies. `anew`: a connection each. */
static void repeating(uint16_t port, int anew)
{
	if (fork())
		return;
	int fd = -1;
	for (int round = 0; round < ROUNDS; round++) {
		char all[1024] = "", in[1024];
		size_t have = 0;
		if (fd < 0)
			fd = connect_to(port);
		for (int i = 0; i < TOGETHER; i++)
			strcat(all, REQUEST);
		write_all(fd, all, strlen(all));
		alarm(20);
		while (replies(in, have) < TOGETHER) {
			ssize_t r = read(fd, in + have, sizeof(in) - have);
			if (r <= 0)
				_exit(2);
			have += r;
		}
		if (anew)
			fd = (close(fd), -1);
	}
	_exit(0);
}

/* A new connection, whose replies are not held back for each other. */
static void at_once(int fd)
{
	int one = 1;
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	events[fd] = 0;
}

/* Reads what is there of a socket that is registered edge-triggered: a short read has taken all, as epoll's manual says,
 * unless an event came meanwhile. 1: the other end has closed. */
static int drained(int fd)
{
	for (;;) {
		char in[1024];
		int seen = __atomic_load_n(&events[fd], __ATOMIC_SEQ_CST);
		ssize_t r = read(fd, in, sizeof(in));
		check(r >= 0 || errno == EAGAIN, "read");
		if (r == 0)
			return 1;
		if (r > 0)
			__atomic_add_fetch(&served, answer(fd, in, r), __ATOMIC_RELAXED);
		if (waker >= 0)
			check(!eventfd_write(waker, 1), "eventfd");
		if (__atomic_compare_exchange_n(&events[fd], &seen, 0, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
			return 0;
	}
}

static void *drains(void *unused)
{
	for (;;) {
		pthread_mutex_lock(&lock);
		while (!queued && !over)
			pthread_cond_wait(&filled, &lock);
		if (over)
			return pthread_mutex_unlock(&lock), NULL;
		int fd = queue[--queued];
		pthread_mutex_unlock(&lock);
		if (drained(fd)) {
			pthread_mutex_lock(&lock);
			back[at_back++] = fd;
			pthread_mutex_unlock(&lock);
			check(!eventfd_write(waker, 1), "eventfd");
		}
	}
}

/* A loop hands edge-triggered sockets to workers, which wake it all the time: events are taken and put back while reads
 * of the same socket are made short. */
static void edges(void)
{
	uint16_t port;
	pthread_t t[4];
	int ep = epoll_create1(0), l = listen_here(&port), ended = 0;
	waker = eventfd(0, EFD_NONBLOCK);
	add(ep, l, EPOLLIN, l);
	add(ep, waker, EPOLLIN | EPOLLET, waker);
	for (int i = 0; i < CLIENTS; i++)
		repeating(port, 0);
	for (int i = 0; i < 4; i++)
		check(!pthread_create(&t[i], NULL, drains, NULL), "pthread_create");
	while (ended < CLIENTS) {
		struct epoll_event e[8];
		int n = epoll_wait(ep, e, 8, 30000);
		check(n > 0, "epoll_wait: nothing for thirty seconds");
		for (int i = 0; i < n; i++) {
			int fd = e[i].data.fd;
			if (fd == l) {
				int c = accept4(l, NULL, NULL, SOCK_NONBLOCK);
				check(c >= 0 && c < FDS, "accept");
				at_once(c);
				add(ep, c, EPOLLIN | EPOLLET, c);
			} else if (fd == waker) {
				eventfd_t unused;
				eventfd_read(waker, &unused);
				pthread_mutex_lock(&lock);
				for (; at_back > 0; ended++)
					close(back[--at_back]);
				pthread_mutex_unlock(&lock);
			} else if (!__atomic_fetch_add(&events[fd], 1, __ATOMIC_SEQ_CST)) {
				pthread_mutex_lock(&lock);
				queue[queued++] = fd;
				pthread_cond_signal(&filled);
				pthread_mutex_unlock(&lock);
			}
		}
	}
	dismiss(t, 4);
	printf("served %d\n", served);
	reap(CLIENTS);
}

static void *waits(void *unused)
{
	for (;;) {
		struct epoll_event e;
		check(epoll_wait(shared_ep, &e, 1, 30000) == 1, "epoll_wait: nothing for thirty seconds");
		if (e.data.fd < 0)
			return NULL;
		if (!__atomic_fetch_add(&events[e.data.fd], 1, __ATOMIC_SEQ_CST) && drained(e.data.fd))
			close(e.data.fd); /* events of it that are under way are nobody's, until the number means another */
	}
}

/* One thread accepts and registers; others, which wait in the same instance, may be given the first event before it has
 * returned from that. */
static void registered(void)
{
	uint16_t port;
	pthread_t t[4];
	int l = listen_here(&port), end = eventfd(1, 0);
	shared_ep = epoll_create1(0);
	for (int i = 0; i < CLIENTS; i++)
		repeating(port, 1);
	for (int i = 0; i < 4; i++)
		check(!pthread_create(&t[i], NULL, waits, NULL), "pthread_create");
	for (int i = 0; i < CLIENTS * ROUNDS; i++) {
		int c = accept4(l, NULL, NULL, SOCK_NONBLOCK);
		check(c >= 0 && c < FDS, "accept");
		at_once(c);
		add(shared_ep, c, EPOLLIN | EPOLLET, c);
	}
	reap(CLIENTS);
	add(shared_ep, end, EPOLLIN, -1);
	for (int i = 0; i < 4; i++)
		pthread_join(t[i], NULL);
	printf("served %d\n", served);
}

static void *computes(void *unused)
{
	for (volatile unsigned n = 0; !over; n++)
		;
	return NULL;
}

static void *sleeps(void *unused)
{
	while (!over)
		usleep(1000);
	return NULL;
}

static void *logs(void *unused)
{
	int null = open("/dev/null", O_WRONLY);
	while (!over) {
		struct timespec t = {0, 500000};
		nanosleep(&t, NULL);
		check(write(null, "x\n", 2) == 2, "write");
	}
	close(null);
	return NULL;
}

/* Asks again and again whether something is there, and never waits. */
static void *asks(void *unused)
{
	int pair[2], ep = epoll_create1(0);
	check(!pipe(pair), "pipe");
	add(ep, pair[0], EPOLLIN, 1);
	while (!over) {
		struct epoll_event e;
		check(epoll_wait(ep, &e, 1, 0) == 0, "nothing is there");
	}
	return NULL;
}

static void *forks(void *unused)
{
	while (!over) {
		pid_t child = fork();
		check(child >= 0, "fork");
		if (!child) {
			/* a loop of its own, in a child of a process whose threads may be waiting */
			int pair[2], ep = epoll_create1(0);
			struct epoll_event e;
			check(!pipe(pair), "pipe");
			add(ep, pair[0], EPOLLIN, 1);
			write_all(pair[1], "x", 1);
			check(epoll_wait(ep, &e, 1, 5000) == 1, "a child's event");
			_exit(0);
		}
		int status;
		check(waitpid(child, &status, 0) == child && status == 0, "a child");
		usleep(2000);
	}
	return NULL;
}

/* Sleeps while it holds what the others need. */
static void *holds(void *unused)
{
	while (!over) {
		pthread_mutex_lock(&lock);
		struct timespec t = {0, 300000};
		nanosleep(&t, NULL);
		pthread_mutex_unlock(&lock);
		usleep(300);
	}
	return NULL;
}

static void beside(void *(*other)(void *))
{
	pthread_t t;
	check(!pthread_create(&t, NULL, other, NULL), "pthread_create");
	stages_by(0);
	pthread_join(t, NULL);
	reap(CLIENTS);
}

static void computing(void) { beside(computes); }
static void sleeping(void) { beside(sleeps); }
static void logging(void) { beside(logs); }
static void asking(void) { beside(asks); }
static void forking(void) { beside(forks); }
static void holding(void) { beside(holds); }

/* Connections that were all made before the loop looks, which takes until there are no more. */
static void together(void)
{
	uint16_t port;
	int made[2], ep = epoll_create1(0), l = listen_here(&port), taken = 0;
	char c;
	check(!pipe(made), "pipe");
	for (int i = 0; i < CLIENTS; i++)
		if (!fork()) {
			int fd = connect_to(port);
			write_all(made[1], "x", 1);
			_exit(read(fd, &c, 1) != 0);
		}
	for (int i = 0; i < CLIENTS; i++)
		check(read(made[0], &c, 1) == 1, "read");
	nonblocking(l);
	add(ep, l, EPOLLIN | EPOLLET, l);
	while (taken < CLIENTS) {
		struct epoll_event e;
		check(epoll_wait(ep, &e, 1, 10000) == 1, "epoll_wait: nothing for ten seconds");
		for (int fd; (fd = accept(l, NULL, NULL)) >= 0; taken++)
			close(fd);
		check(errno == EAGAIN, "accept");
	}
	printf("accepted %d\n", taken);
	reap(CLIENTS);
}

int main(int argc, char **argv)
{
	static const struct part all[] = {{"stages", stages},	 {"stages_edge", stages_edge}, {"computing", computing}, {"sleeping", sleeping},
		   {"logging", logging}, {"asking", asking},	       {"forking", forking},	 {"holding", holding},
		   {"edges", edges},	 {"registered", registered},   {"together", together}};
	begin(60);
	return play(argc, argv, all, sizeof(all) / sizeof(*all));
}
