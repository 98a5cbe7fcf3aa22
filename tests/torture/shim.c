/* Stands between a process and the disk, by LD_PRELOAD: records what changes one database, and fails where it is told.

   TORTURE_FILE names the database; what is meant are that file, what lies beside it under its name with an ending, and
   its folder. TORTURE_LOG, if set, takes the records: what was written, and what was asked to be on the disk. Flushes
   are recorded and not done: whoever replays the log decides what the disk had. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct record {
    char kind; /* w: bytes written, t: cut to a length, f: flushed, u: unlinked */
    char file; /* d: database, w: log, m: shared memory, j: journal, u: marker, s: what the process says, f: folder */
    char unused[6];
    int64_t offset;
    int64_t length;
};

static pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;
static int log_fd = -1;
static int armed, skipped, wanted_errno, stays;
static long failed;

/* Fail the call after `skip` others, and with `sticky` every one after it, with this errno. */
void torture_arm(int skip, int error, int sticky)
{
    pthread_mutex_lock(&gate);
    armed = 1, skipped = skip, wanted_errno = error, stays = sticky, failed = 0;
    pthread_mutex_unlock(&gate);
}

/* Fail no more; return how many calls have failed. */
long torture_disarm(void)
{
    pthread_mutex_lock(&gate);
    armed = 0;
    pthread_mutex_unlock(&gate);
    return failed;
}

static char file_at(const char *path)
{
    const char *base = getenv("TORTURE_FILE");
    if (base == NULL)
        return 0;
    size_t length = strlen(base);
    if (strncmp(path, base, length) != 0) {
        size_t folder = strlen(path);
        return folder < length && strncmp(path, base, folder) == 0 && strrchr(base, '/') == base + folder ? 'f' : 0;
    }
    const char *rest = path + length;
    if (*rest == 0)
        return 'd';
    if (strcmp(rest, "-wal") == 0)
        return 'w';
    if (strcmp(rest, "-shm") == 0)
        return 'm';
    if (strcmp(rest, "-journal") == 0)
        return 'j';
    if (strcmp(rest, "-used") == 0)
        return 'u';
    return strcmp(rest, "-said") == 0 ? 's' : 0;
}

static char file_of(int fd)
{
    char link[64], path[4096];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (length <= 0 || path[0] != '/')
        return 0;
    path[length] = 0;
    return file_at(path);
}

static void *real(const char *name)
{
    return dlsym(RTLD_NEXT, name);
}

static ssize_t really_write(int fd, const void *bytes, size_t length)
{
    static ssize_t (*call)(int, const void *, size_t);
    if (call == NULL)
        call = real("write");
    return call(fd, bytes, length);
}

static ssize_t really_pwrite(int fd, const void *bytes, size_t length, off_t offset)
{
    static ssize_t (*call)(int, const void *, size_t, off_t);
    if (call == NULL)
        call = real("pwrite");
    return call(fd, bytes, length, offset);
}

static void record(char kind, char file, int64_t offset, int64_t length, const void *bytes)
{
    const char *path = getenv("TORTURE_LOG");
    if (path == NULL || file == 'm')
        return;
    if (log_fd < 0)
        log_fd = open(path, O_CREAT | O_WRONLY | O_APPEND | O_CLOEXEC, 0600);
    struct record head = {kind, file, {0}, offset, length};
    really_write(log_fd, &head, sizeof head);
    for (int64_t done = 0; bytes != NULL && done < length;)
        done += really_write(log_fd, (const char *)bytes + done, length - done);
}

/* Whether the call is to fail; a read fails with EIO alone. */
static int fails(char file, int reads)
{
    if (!armed || file == 's' || (reads && wanted_errno != EIO))
        return 0;
    if (skipped > 0) {
        skipped--;
        return 0;
    }
    failed++;
    armed = stays;
    errno = wanted_errno;
    return 1;
}

/* A write that fails has written half. */
static ssize_t change(int fd, const void *bytes, size_t length, off_t offset, int placed)
{
    char file = file_of(fd);
    if (!file)
        return placed ? really_pwrite(fd, bytes, length, offset) : really_write(fd, bytes, length);
    pthread_mutex_lock(&gate);
    if (!placed)
        offset = lseek(fd, 0, SEEK_CUR);
    int refuses = fails(file, 0);
    size_t least = refuses ? length / 2 : length;
    ssize_t done = placed ? really_pwrite(fd, bytes, least, offset) : really_write(fd, bytes, least);
    if (done > 0)
        record('w', file, offset, done, bytes);
    if (refuses)
        errno = wanted_errno, done = -1;
    pthread_mutex_unlock(&gate);
    return done;
}

ssize_t write(int fd, const void *bytes, size_t length)
{
    return change(fd, bytes, length, 0, 0);
}

ssize_t pwrite(int fd, const void *bytes, size_t length, off_t offset)
{
    return change(fd, bytes, length, offset, 1);
}

ssize_t pwrite64(int fd, const void *bytes, size_t length, off64_t offset)
{
    return change(fd, bytes, length, offset, 1);
}

static ssize_t look(int fd, void *bytes, size_t length, off_t offset)
{
    static ssize_t (*call)(int, void *, size_t, off_t);
    if (call == NULL)
        call = real("pread");
    if (armed) {
        char file = file_of(fd);
        pthread_mutex_lock(&gate);
        int refuses = file && fails(file, 1);
        pthread_mutex_unlock(&gate);
        if (refuses)
            return -1;
    }
    return call(fd, bytes, length, offset);
}

ssize_t pread(int fd, void *bytes, size_t length, off_t offset)
{
    return look(fd, bytes, length, offset);
}

ssize_t pread64(int fd, void *bytes, size_t length, off64_t offset)
{
    return look(fd, bytes, length, offset);
}

static int cut(int fd, off_t length)
{
    static int (*call)(int, off_t);
    if (call == NULL)
        call = real("ftruncate");
    char file = file_of(fd);
    if (!file)
        return call(fd, length);
    pthread_mutex_lock(&gate);
    int done = fails(file, 0) ? -1 : call(fd, length);
    if (done == 0)
        record('t', file, length, 0, NULL);
    pthread_mutex_unlock(&gate);
    return done;
}

int ftruncate(int fd, off_t length)
{
    return cut(fd, length);
}

int ftruncate64(int fd, off64_t length)
{
    return cut(fd, length);
}

static int flush(int fd, const char *name)
{
    char file = file_of(fd);
    if (!file) {
        int (*call)(int) = real(name);
        return call(fd);
    }
    pthread_mutex_lock(&gate);
    int done = fails(file, 0) ? -1 : 0;
    if (done == 0)
        record('f', file, 0, 0, NULL);
    pthread_mutex_unlock(&gate);
    return done;
}

int fsync(int fd)
{
    return flush(fd, "fsync");
}

int fdatasync(int fd)
{
    return flush(fd, "fdatasync");
}

int unlink(const char *path)
{
    static int (*call)(const char *);
    if (call == NULL)
        call = real("unlink");
    char file = file_at(path);
    if (!file)
        return call(path);
    pthread_mutex_lock(&gate);
    int done = fails(file, 0) ? -1 : call(path);
    if (done == 0)
        record('u', file, 0, 0, NULL);
    pthread_mutex_unlock(&gate);
    return done;
}
