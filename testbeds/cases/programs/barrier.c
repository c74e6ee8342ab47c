// An MPI barrier at which all ranks but the first wait: barrier ROUNDS COMPUTE_MS. Each rank prints one JSON line a round.
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static long long now_ns(void) {
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000LL + t.tv_nsec;
}

int main(int argc, char **argv) {
	MPI_Init(&argc, &argv);
	int rank, rounds = argc > 1 ? atoi(argv[1]) : 20, compute_ms = argc > 2 ? atoi(argv[2]) : 50;
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	for (int round = 1; round <= rounds; round++) {
		long long begin = now_ns();
		while (rank == 0 && now_ns() < begin + compute_ms * 1000000LL)
			;
		long long barrier = now_ns();
		MPI_Barrier(MPI_COMM_WORLD);
		printf("{\"side\":\"rank %d\",\"pid\":%d,\"id\":%d,\"send_ns\":%lld,\"barrier_ns\":%lld,\"received_ns\":%lld}\n",
		       rank, getpid(), round, begin, barrier, now_ns());
		fflush(stdout);
	}
	MPI_Finalize();
	return 0;
}
