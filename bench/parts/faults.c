/* Does nothing but take page faults: faults WHAT PAGES ROUNDS FILE; prints the nanoseconds of one fault, a line for each round.
 * WHAT: `memory` writes to pages that are not there yet; `file` reads pages of a file that are in memory and not mapped, the
 * first of each sixteen, since the kernel maps the others with it. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define PAGE 4096

int main(int count, char **words)
{
	int is_file = count == 5 && !strcmp(words[1], "file");
	long pages = count == 5 ? atol(words[2]) : 0, rounds = count == 5 ? atol(words[3]) : 0;
	char block[PAGE] = { 1 };
	int file = -1;
	long step = is_file ? 16 : 1, sum = 0;

	if (is_file) {
		file = open(words[4], O_RDWR | O_CREAT | O_TRUNC, 0600);
		for (long i = 0; i < pages; i++)
			if (write(file, block, PAGE) != PAGE)
				return 1;
	}
	for (long r = 0; r < rounds; r++) {
		int flags = is_file ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS;
		volatile char *at = mmap(0, pages * PAGE, PROT_READ | PROT_WRITE, flags, file, 0);
		struct timespec a, b;

		if (at == MAP_FAILED)
			return 1;
		madvise((void *)at, pages * PAGE, MADV_NOHUGEPAGE);
		clock_gettime(CLOCK_MONOTONIC, &a);
		for (long i = 0; i < pages; i += step) {
			if (is_file)
				sum += at[i * PAGE];
			else
				at[i * PAGE] = 1;
		}
		clock_gettime(CLOCK_MONOTONIC, &b);
		printf("%.1f\n", ((b.tv_sec - a.tv_sec) * 1e9 + (b.tv_nsec - a.tv_nsec)) * step / pages);
		munmap((void *)at, pages * PAGE);
	}
	return sum < 0;
}
