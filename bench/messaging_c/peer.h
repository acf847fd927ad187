/* What devices and one subscriber on a C client have in common: `peer.c` paces and counts, and a file for each client does what is
 * declared below as the client's. */
#ifndef PEER_H
#define PEER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What came back so far. Clients with threads of their own count there. */
extern atomic_long acknowledged, failed, received;

/* Ends the program with what went wrong. */
_Noreturn void die(const char *what, const char *why);

/* `each_ready` calls `serve` with the number of each socket that can be read, and waits for the first one for so many nanoseconds. */
void watch(int socket, int number);
void each_ready(int64_t patience, void (*serve)(int number));

/* The client's: its name and version. */
const char *client_name(void);
/* The subscriber, then each device, is connected at that address and knows that topic. */
void client_open(const char *address, const char *topic, int devices);
/* Hands a message over, which the server will acknowledge; false where the client does not take it. */
bool client_publish(int device, const char *content, size_t size);
/* Does what there is to do with what has come. A client that watches sockets waits for that, for so many nanoseconds. */
void client_poll(int64_t patience);
/* Counts what only the client has counted, when nothing more will come, and removes what was made for the run. */
void client_close(void);

#endif
