/* Nanoseconds of one mark: `marks COUNT ROUNDS off|on`. `on` waits until somebody listens. One number a round. */
#include "wakepath.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1e9 + t.tv_nsec;
}

__attribute__((noinline)) static double without(unsigned long count)
{
	double begun = now();
	unsigned long i;

	for (i = 0; i < count; i++)
		__asm__ volatile("" ::"r"(i));
	return now() - begun;
}

__attribute__((noinline)) static double with(unsigned long count)
{
	double begun = now();
	unsigned long i;

	for (i = 0; i < count; i++) {
		__asm__ volatile("" ::"r"(i));
		WAKEPATH_ENQUEUE("machine", i, "queue", 0, 1);
	}
	return now() - begun;
}

int main(int argc, char **argv)
{
	unsigned long count = argc > 3 ? strtoul(argv[1], 0, 10) : 0, rounds = argc > 3 ? strtoul(argv[2], 0, 10) : 0, i;
	int on = argc > 3 && !strcmp(argv[3], "on");

	for (i = 0; on && !WAKEPATH_LISTENS() && i < 3000; i++)
		usleep(10000);
	if (!count || on != !!WAKEPATH_LISTENS())
		return 2;
	for (i = 0; i < rounds; i++) {
		double plain = without(count), marked = with(count);

		printf("%.4f\n", (marked - plain) / count);
		fflush(stdout);
		/* the recorder empties its ring meanwhile */
		if (on)
			usleep(50000);
	}
	return 0;
}
