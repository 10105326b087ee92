/* What /health and `queenctl` call this build. */
#ifndef BASE_VERSION_H
#define BASE_VERSION_H

#define QUEEN_VERSION "0.1.0"
#define QUEEN_ENGINE  "queen-fcgi"

#endif
