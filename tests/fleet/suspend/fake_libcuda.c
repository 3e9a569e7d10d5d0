/* Stands for libcuda.so.1: the functions that suspend processes, on the side of the caller.
 *
 * A process uses CUDA if the folder STATE (set when this is compiled) has a file with its number, which holds its state.
 * A checkpoint stops the process by SIGSTOP, a restore goes on with SIGCONT. A file `fail` there makes a function return
 * a code: "cuCheckpointProcessLock 600". A file `slow` makes each checkpoint take ten seconds. A process that loads this
 * with STAND_IN_USES_CUDA in its environment makes its own file.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { RUNNING, LOCKED, CHECKPOINTED };

static const char *path(const char *name) {
    static char found[4096];
    snprintf(found, sizeof found, "%s/%s", STATE, name);
    return found;
}

static const char *of(int pid) {
    static char name[32];
    snprintf(name, sizeof name, "%d", pid);
    return path(name);
}

__attribute__((constructor)) static void use(void) {
    FILE *file = getenv("STAND_IN_USES_CUDA") ? fopen(of(getpid()), "w") : NULL;
    if (!file) return;
    fprintf(file, "%d", RUNNING);
    fclose(file);
}

static int told(const char *function) {
    char name[128];
    int code = 0;
    FILE *file = fopen(path("fail"), "r");
    if (!file) return 0;
    while (fscanf(file, "%127s %d", name, &code) == 2)
        if (!strcmp(name, function)) break; else code = 0;
    fclose(file);
    return code;
}

static int state(int pid) {
    int found = -1;
    FILE *file = fopen(of(pid), "r");
    if (!file) return -1;
    if (fscanf(file, "%d", &found) != 1) found = -1;
    fclose(file);
    return found;
}

static int move(const char *function, int pid, int from, int to, int number) {
    int code = told(function);
    if (code) return code;
    if (state(pid) < 0 || kill(pid, 0)) return 1;  /* INVALID_VALUE */
    if (state(pid) != from) return 401;            /* ILLEGAL_STATE */
    if (number) kill(pid, number);
    FILE *file = fopen(of(pid), "w");
    fprintf(file, "%d", to);
    fclose(file);
    return 0;
}

int cuInit(unsigned flags) { return told("cuInit"); }

int cuCheckpointProcessGetState(int pid, int *found) {
    int code = told("cuCheckpointProcessGetState");
    if (code) return code;
    *found = state(pid);
    return *found < 0;
}

int cuCheckpointProcessLock(int pid, void *arguments) {
    return move("cuCheckpointProcessLock", pid, RUNNING, LOCKED, 0);
}

int cuCheckpointProcessCheckpoint(int pid, void *arguments) {
    if (!access(path("slow"), F_OK)) sleep(10);
    return move("cuCheckpointProcessCheckpoint", pid, LOCKED, CHECKPOINTED, SIGSTOP);
}

int cuCheckpointProcessRestore(int pid, void *arguments) {
    return move("cuCheckpointProcessRestore", pid, CHECKPOINTED, LOCKED, SIGCONT);
}

int cuCheckpointProcessUnlock(int pid, void *arguments) {
    return move("cuCheckpointProcessUnlock", pid, LOCKED, RUNNING, 0);
}
