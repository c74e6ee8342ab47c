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
	pthread_mutex_lock(&lock);
	over = 1;
	pthread_cond_broadcast(&filled);
	pthread_mutex_unlock(&lock);
	for (int i = 0; i < 2; i++)
		pthread_join(t[i], NULL);
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

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*run)(void);
	} all[] = {{"stages", stages},	 {"stages_edge", stages_edge}, {"computing", computing}, {"sleeping", sleeping},
		   {"logging", logging}, {"asking", asking},	       {"forking", forking},	 {"holding", holding}};
	setvbuf(stdout, NULL, _IOLBF, 0);
	signal(SIGPIPE, SIG_IGN);
	alarm(60);
	for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++)
		if (argc > 1 && !strcmp(argv[1], all[i].name)) {
			all[i].run();
			return 0;
		}
	return 3;
}
