/* Whether a process is still the one it was: pid and start time together (a pid alone is reused).
 */
#ifndef SHM_PROCESS_H
#define SHM_PROCESS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* Start time of this process, clock ticks since boot (proc(5), stat field 22). Dies when /proc is
 * not there. */
uint64_t process_start_time(void);

/* How long a process has been running that started then; 0 when the clock cannot be read. */
uint64_t process_age_ms(uint64_t start_time);

/* No such process, another one of the same pid, or a zombie: false. When it cannot be told (no
 * descriptor left, say) the answer is true: a slot kept too long harms less than one taken away. */
bool process_alive(pid_t pid, uint64_t start_time);

#endif
