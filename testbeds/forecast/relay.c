// A wire that takes its time: relay INTERFACE INTERFACE DELAY_US. Every packet of one interface leaves by the other, so
// much later, whole and in order; TCP stays end to end. It prints `ready`, and at its end what it passed on and dropped.
// Large packets that a network card would cut (segmentation offload) pass as they are, with the header that says so.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_packet.h>
#include <linux/virtio_net.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { PACKET_MAX = sizeof(struct virtio_net_hdr) + 65536 + 64, ROOM = 96 << 20 };

// A packet on its way; its bytes follow it.
struct packet {
	struct packet *next;
	long long due_ns;
	size_t bytes;
	char data[];
};

struct way {
	int from, to;
	struct packet *first, **last;
	unsigned long long packets, dropped;
};

static volatile sig_atomic_t over;
static size_t held;

static void end(int sig) { (void)sig, over = 1; }

static void fail(const char *what) {
	perror(what);
	exit(1);
}

static long long now_ns(void) {
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static int open_interface(const char *name) {
	int one = 1, room = 32 << 20, s = socket(AF_PACKET, SOCK_RAW | SOCK_NONBLOCK, htons(ETH_P_ALL));
	if (s < 0)
		fail("socket");
	struct sockaddr_ll to = {.sll_family = AF_PACKET, .sll_protocol = htons(ETH_P_ALL), .sll_ifindex = if_nametoindex(name)};
	if (!to.sll_ifindex || setsockopt(s, SOL_PACKET, PACKET_VNET_HDR, &one, sizeof one) ||
	    setsockopt(s, SOL_PACKET, PACKET_IGNORE_OUTGOING, &one, sizeof one) ||
	    setsockopt(s, SOL_SOCKET, SO_RCVBUFFORCE, &room, sizeof room) ||
	    setsockopt(s, SOL_SOCKET, SO_SNDBUFFORCE, &room, sizeof room) || bind(s, (struct sockaddr *)&to, sizeof to))
		fail(name);
	return s;
}

// Takes all that has come.
static void take(struct way *w, long long delay_ns) {
	static char room[PACKET_MAX];
	ssize_t n;
	while ((n = recv(w->from, room, sizeof room, 0)) > 0) {
		struct packet *p = held + n > ROOM ? 0 : malloc(sizeof *p + n);
		if (!p) {
			w->dropped++;
			continue;
		}
		held += n;
		p->next = 0, p->due_ns = now_ns() + delay_ns, p->bytes = n;
		memcpy(p->data, room, n);
		*w->last = p;
		w->last = &p->next;
	}
}

// Sends all that is due; gives when the next one is.
static long long give(struct way *w) {
	struct packet *p;
	while ((p = w->first) && p->due_ns <= now_ns()) {
		if (send(w->to, p->data, p->bytes, 0) < 0)
			w->dropped++;
		else
			w->packets++;
		held -= p->bytes;
		if (!(w->first = p->next))
			w->last = &w->first;
		free(p);
	}
	return p ? p->due_ns : 0;
}

int main(int argc, char **argv) {
	if (argc != 4) {
		fprintf(stderr, "usage: relay INTERFACE INTERFACE DELAY_US\n");
		return 2;
	}
	long long delay_ns = atoll(argv[3]) * 1000;
	int a = open_interface(argv[1]), b = open_interface(argv[2]);
	struct way there = {.from = a, .to = b, .last = &there.first}, back = {.from = b, .to = a, .last = &back.first};
	struct sigaction on_end = {.sa_handler = end};
	sigaction(SIGTERM, &on_end, 0);
	sigaction(SIGINT, &on_end, 0);
	// a timer of 50 us more or less would be a part of the delay
	prctl(PR_SET_TIMERSLACK, 1);
	puts("ready");
	fflush(stdout);
	while (!over) {
		take(&there, delay_ns);
		take(&back, delay_ns);
		long long x = give(&there), y = give(&back), next = !x || (y && y < x) ? y : x;
		long long left = next - now_ns();
		struct timespec wait = {.tv_sec = left > 0 ? left / 1000000000 : 0, .tv_nsec = left > 0 ? left % 1000000000 : 0};
		struct pollfd fds[] = {{.fd = a, .events = POLLIN}, {.fd = b, .events = POLLIN}};
		if (ppoll(fds, 2, next ? &wait : 0, 0) < 0 && errno != EINTR)
			fail("ppoll");
	}
	printf("there %llu packets, %llu dropped; back %llu, %llu\n", there.packets, there.dropped, back.packets, back.dropped);
	return 0;
}
