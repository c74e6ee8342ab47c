/* Prints where this CPython keeps the identity of asyncio's contexts, from its own headers: a line of ../python.csv. */
#define Py_BUILD_CORE
#include <Python.h>
#include <internal/pycore_context.h>
#include <internal/pycore_runtime.h>
#include <stddef.h>
#include <stdio.h>

int main(void)
{
	printf("%d.%d,%zu,%zu,%zu,%zu,%s\n", PY_MAJOR_VERSION, PY_MINOR_VERSION,
#if PY_VERSION_HEX >= 0x030c0000
	       offsetof(_PyRuntimeState, autoTSSkey),
#else
	       offsetof(_PyRuntimeState, gilstate.autoTSSkey),
#endif
	       offsetof(PyThreadState, context),
	       offsetof(PyThreadState, thread_id),
	       offsetof(struct _pycontextobject, ctx_entered),
	       PY_VERSION);
	return 0;
}
