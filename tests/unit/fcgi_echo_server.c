/* The application of fcgi_echo.h as a program, for measuring by hand: `make
 * build/unit/fcgi_echo_server`, then spawn-fcgi or `fcgi_echo_server <socket path>`. */
#include "fcgi_echo.h"
#include "fcgi_fixture.h"

int main(int argc, char **argv)
{
    const struct echo_options options = {0};
    return echo_serve(argc > 1 ? fixture_listen(argv[1]) : 0, &options);
}
