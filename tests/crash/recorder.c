/* Loaded before libc (LD_PRELOAD): writes down, in one order for all processes, what a program does to the files of one
   folder, when it lets them be synced, and what it tells the world.

   A record is a header and then a path and data. The operation and its record are one step under one lock (flock(2) on
   the record itself, a mutex within the process), so that the order of records is the order of operations. A sync is
   recorded once it has returned; what leaves the process (by a pipe that is not its stderr, by TCP) before it leaves.
   POWER_FOLDER: the folder, absolute. POWER_RECORD: the record. Shared memory is not recorded: SQLite rebuilds it. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

struct header { uint32_t pid; char kind; char pad[3]; uint64_t inode, offset, size; uint32_t path_bytes, data_bytes; };

static pthread_mutex_t alone = PTHREAD_MUTEX_INITIALIZER;
static const char *folder;
static size_t folder_bytes;
static int record = -1;

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

static void child(void) { record = -1; }

static void begin(void) {
    pthread_mutex_lock(&alone);
    if (record < 0) {
        record = REAL(open)(getenv("POWER_RECORD"), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
        if (record < 0) abort();
    }
    while (flock(record, LOCK_EX) < 0) if (errno != EINTR) abort();
}

static void end(void) {
    int kept = errno;
    flock(record, LOCK_UN);
    pthread_mutex_unlock(&alone);
    errno = kept;
}

static void all(const void *bytes, size_t size) {
    for (const char *at = bytes; size;) {
        ssize_t done = REAL(write)(record, at, size);
        if (done < 0) abort();
        at += done, size -= (size_t)done;
    }
}

static void note(char kind, const char *path, uint64_t inode, uint64_t offset, uint64_t size, const void *data,
                 size_t bytes) {
    int kept = errno;
    struct header h = {.pid = (uint32_t)getpid(), .kind = kind, .inode = inode, .offset = offset, .size = size,
                       .path_bytes = (uint32_t)strlen(path), .data_bytes = (uint32_t)bytes};
    all(&h, sizeof h), all(path, h.path_bytes), all(data, bytes);
    errno = kept;
}

static int inside(const char *path) {
    return folder && !strncmp(path, folder, folder_bytes) && (path[folder_bytes] == '/' || !path[folder_bytes]) &&
           !strstr(path, "/sandbox/") && !(strlen(path) > 4 && !strcmp(path + strlen(path) - 4, "-shm"));
}

/* The path of an open file of the folder, and what it is; 0 when it is none. */
static int named(int fd, char *path, struct stat *found) {
    char link[64];
    if (!folder) return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t size = readlink(link, path, PATH_MAX - 1);
    if (size <= 0) return 0;
    path[size] = 0;
    return inside(path) && !fstat(fd, found) && (S_ISREG(found->st_mode) || S_ISDIR(found->st_mode));
}

static void absolute(int at, const char *given, char *path) {
    char base[PATH_MAX] = "", link[64];
    if (given[0] != '/') {
        if (at == AT_FDCWD) strcpy(link, "/proc/self/cwd"); else snprintf(link, sizeof link, "/proc/self/fd/%d", at);
        ssize_t size = readlink(link, base, PATH_MAX - 2);
        base[size < 0 ? 0 : size] = 0;
        strcat(base, "/");
    }
    snprintf(path, PATH_MAX, "%s%s", base, given);
}

static int opened(int at, const char *given, int flags, mode_t mode) {
    char path[PATH_MAX];
    struct stat found;
    __typeof__(&openat) real = REAL(openat);
    absolute(at, given, path);
    if (!inside(path) || !(flags & (O_CREAT | O_TRUNC))) return real(at, given, flags, mode);
    begin();
    int was = !fstatat(at, given, &found, 0), had = was && found.st_size > 0;
    int fd = real(at, given, flags, mode);
    if (fd >= 0 && !fstat(fd, &found)) {
        if (!was) note('C', path, found.st_ino, 0, 0, "", 0);
        else if (had && (flags & O_TRUNC)) note('T', path, found.st_ino, 0, 0, "", 0);
    }
    end();
    return fd;
}

#define MODE(flags) mode_t mode = 0; \
    if ((flags) & (O_CREAT | __O_TMPFILE)) { va_list more; va_start(more, flags); mode = va_arg(more, mode_t); va_end(more); }
int open(const char *path, int flags, ...) { MODE(flags) return opened(AT_FDCWD, path, flags, mode); }
int open64(const char *path, int flags, ...) { MODE(flags) return opened(AT_FDCWD, path, flags, mode); }
int openat(int at, const char *path, int flags, ...) { MODE(flags) return opened(at, path, flags, mode); }
int openat64(int at, const char *path, int flags, ...) { MODE(flags) return opened(at, path, flags, mode); }

ssize_t write(int fd, const void *data, size_t size) {
    char path[PATH_MAX];
    struct stat found;
    if (folder && fd != STDERR_FILENO && !fstat(fd, &found) && S_ISFIFO(found.st_mode)) {
        begin(), note('S', "", 0, 0, size, data, size), end();
        return REAL(write)(fd, data, size);
    }
    if (!named(fd, path, &found)) return REAL(write)(fd, data, size);
    begin();
    fstat(fd, &found);
    off_t at = fcntl(fd, F_GETFL) & O_APPEND ? found.st_size : lseek(fd, 0, SEEK_CUR);
    ssize_t done = REAL(write)(fd, data, size);
    if (done > 0) note('W', path, found.st_ino, (uint64_t)at, (uint64_t)done, data, (size_t)done);
    end();
    return done;
}

ssize_t pwrite64(int fd, const void *data, size_t size, off64_t at) {
    char path[PATH_MAX];
    struct stat found;
    if (!named(fd, path, &found)) return REAL(pwrite64)(fd, data, size, at);
    begin();
    ssize_t done = REAL(pwrite64)(fd, data, size, at);
    if (done > 0) note('W', path, found.st_ino, (uint64_t)at, (uint64_t)done, data, (size_t)done);
    end();
    return done;
}
ssize_t pwrite(int fd, const void *data, size_t size, off_t at) { return pwrite64(fd, data, size, at); }

int ftruncate64(int fd, off64_t size) {
    char path[PATH_MAX];
    struct stat found;
    if (!named(fd, path, &found)) return REAL(ftruncate64)(fd, size);
    begin();
    int failed = REAL(ftruncate64)(fd, size);
    if (!failed) note('T', path, found.st_ino, 0, (uint64_t)size, "", 0);
    end();
    return failed;
}
int ftruncate(int fd, off_t size) { return ftruncate64(fd, size); }

static int synced(int fd, int (*real)(int)) {
    char path[PATH_MAX];
    struct stat found;
    if (!named(fd, path, &found)) return real(fd);
    begin();
    int failed = real(fd);
    if (!failed) note('F', path, found.st_ino, 0, 0, "", 0);
    end();
    return failed;
}
int fsync(int fd) { return synced(fd, REAL(fsync)); }
int fdatasync(int fd) { return synced(fd, REAL(fdatasync)); }

int unlink(const char *given) {
    char path[PATH_MAX];
    absolute(AT_FDCWD, given, path);
    if (!inside(path)) return REAL(unlink)(given);
    begin();
    int failed = REAL(unlink)(given);
    if (!failed) note('U', path, 0, 0, 0, "", 0);
    end();
    return failed;
}

int rename(const char *given, const char *to) {
    char path[PATH_MAX], target[PATH_MAX];
    absolute(AT_FDCWD, given, path), absolute(AT_FDCWD, to, target);
    if (!inside(path)) return REAL(rename)(given, to);
    begin();
    int failed = REAL(rename)(given, to);
    if (!failed) note('R', path, 0, 0, 0, target, strlen(target));
    end();
    return failed;
}

int mkdir(const char *given, mode_t mode) {
    char path[PATH_MAX];
    absolute(AT_FDCWD, given, path);
    if (!inside(path)) return REAL(mkdir)(given, mode);
    begin();
    int failed = REAL(mkdir)(given, mode);
    struct stat found;
    if (!failed && !REAL(stat)(given, &found)) note('D', path, found.st_ino, 0, 0, "", 0);
    end();
    return failed;
}

/* What leaves by TCP, under the number of the socket, which no other gets. */
static void leaving(int fd, const void *data, size_t size) {
    int type = 0;
    socklen_t bytes = sizeof type;
    struct stat found;
    struct sockaddr_storage peer;
    socklen_t peer_bytes = sizeof peer;
    if (!folder || getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &bytes) || type != SOCK_STREAM) return;
    if (getpeername(fd, (struct sockaddr *)&peer, &peer_bytes) || peer.ss_family == AF_UNIX || fstat(fd, &found)) return;
    begin(), note('N', "", found.st_ino, 0, size, data, size), end();
}
ssize_t send(int fd, const void *data, size_t size, int flags) {
    leaving(fd, data, size);
    return REAL(send)(fd, data, size, flags);
}
ssize_t sendmsg(int fd, const struct msghdr *message, int flags) {
    for (size_t n = 0; n < message->msg_iovlen; n++) leaving(fd, message->msg_iov[n].iov_base, message->msg_iov[n].iov_len);
    return REAL(sendmsg)(fd, message, flags);
}

__attribute__((constructor)) static void start(void) {
    folder = getenv("POWER_FOLDER");
    folder_bytes = folder ? strlen(folder) : 0;
    pthread_atfork(NULL, NULL, child);
}
