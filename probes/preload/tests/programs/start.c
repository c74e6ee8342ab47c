/* Pages that are touched where a descriptor is duplicated and the first one closed: their number is printed. */
#include "common.h"
#include <sys/resource.h>

int main(void)
{
	struct rusage before, after;
	int first = open("/dev/null", O_RDONLY);
	check(first >= 0 && !getrusage(RUSAGE_SELF, &before), "open");
	int second = dup(first);
	check(second >= 0 && !close(first), "dup");
	check(!getrusage(RUSAGE_SELF, &after), "getrusage");
	printf("%ld\n", after.ru_minflt - before.ru_minflt);
	return 0;
}
