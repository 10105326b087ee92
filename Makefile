# Build, tests and running of the product. `make help` lists the targets.
CC      ?= cc
BUILD   ?= build
CFLAGS  ?= -O2 -g
WARN    := -Wall -Wextra -Wshadow -Wconversion -Werror
PG_INC  := $(shell pg_config --includedir 2>/dev/null)
comma   := ,
# SANITIZE=address,undefined or SANITIZE=thread builds into a directory of its own.
ifdef SANITIZE
BUILD   := build-$(subst $(comma),-,$(SANITIZE))
CFLAGS  := -O1 -g -fno-omit-frame-pointer -fsanitize=$(SANITIZE)
endif
CPPFLAGS := -D_GNU_SOURCE -Iapp -isystem $(PG_INC) -I$(BUILD)
ALL_CFLAGS := -std=c17 $(WARN) $(CFLAGS) -pthread -MMD -MP
LDLIBS  := -lpq -lzstd -lxxhash -lfcgi -lrt

LIBS    := base wire log shm pg fcgi
LIB_SRC := $(foreach d,$(LIBS),$(wildcard app/$d/*.c))
LIB_OBJ := $(LIB_SRC:%.c=$(BUILD)/%.o)
PROGRAMS := worker flusher keeper ctl
BIN_worker := queen-worker
BIN_flusher := queen-flusher
BIN_keeper := queen-keeper
BIN_ctl := queenctl
BINS    := $(foreach p,$(PROGRAMS),$(BUILD)/bin/$(BIN_$p))

.PHONY: all
all: $(BINS)

.PHONY: help
help:
	@echo 'make run          install what is missing, build, start, stay until Ctrl-C'
	@echo 'make up / down    the same in the background / stop it; make status'
	@echo 'make test         all tests, one after another'
	@echo '  unit, unit-sanitize, test-sql, test-deploy, test-e2e, test-chaos: each alone'
	@echo 'make bench-smoke  a ten-second run, one line of figures; make bench: all scenarios, to docs/performance.md'
	@echo 'make all          build only'
	@echo 'make deps         install what is missing (root), or say what is missing'
	@echo 'make lint         formatting, cppcheck, shellcheck'
	@echo 'make docs         docs/configuration.md from the table of settings'
	@echo 'make clean        remove what was built; make purge: stop, and remove the run directory with its data'
	@echo 'Settings: QUEEN_PORT QUEEN_BIND QUEEN_RUN_DIR QUEEN_WORKERS QUEEN_DATABASE_URL, see README.md'

define PROGRAM_RULE
OBJ_$1 := $$(patsubst %.c,$$(BUILD)/%.o,$$(wildcard app/$1/*.c))
$$(BUILD)/bin/$$(BIN_$1): $$(OBJ_$1) $$(BUILD)/libqueen.a
	@mkdir -p $$(@D)
	$$(CC) $$(ALL_CFLAGS) $$(LDFLAGS) -o $$@ $$^ $$(LDLIBS)
endef
$(foreach p,$(PROGRAMS),$(eval $(call PROGRAM_RULE,$p)))

# The SQL is compiled into queenctl. The directories are named too: a removed file changes them.
# A name of its own for what is being written: two makes in one checkout may do it at once.
SQL_FILES := $(sort $(wildcard sql/migrations/*.sql)) $(sort $(wildcard sql/functions/*.sql))
$(BUILD)/sql_files.c: app/ctl/embed.sh $(SQL_FILES) sql/migrations sql/functions
	@mkdir -p $(@D)
	sh app/ctl/embed.sh $(SQL_FILES) >$@.$$$$ && mv $@.$$$$ $@
$(BUILD)/sql_files.o: $(BUILD)/sql_files.c
	$(CC) $(CPPFLAGS) $(ALL_CFLAGS) -c -o $@ $<
$(BUILD)/bin/queenctl: $(BUILD)/sql_files.o
# Tests that run these programs.
$(BUILD)/unit/ctl_test: | $(BUILD)/bin/queenctl
$(BUILD)/unit/keeper_test: | $(BUILD)/bin/queenctl $(BUILD)/bin/queen-keeper
$(BUILD)/unit/flusher_test: | $(BUILD)/bin/queen-flusher

$(BUILD)/libqueen.a: $(LIB_OBJ)
	@mkdir -p $(@D)
	@rm -f $@
	$(AR) rcs $@ $^

$(BUILD)/%.o: %.c
	@mkdir -p $(@D)
	$(CC) $(CPPFLAGS) $(ALL_CFLAGS) -c -o $@ $<

# Unit tests: tests/unit/<name>_test.c, one program each, linked with the libraries, cmocka and
# the objects of a program where the first line says "objects: flusher/fold".
UNIT_SRC := $(wildcard tests/unit/*_test.c)
UNIT_BIN := $(UNIT_SRC:tests/unit/%.c=$(BUILD)/unit/%)
unit_objects = $(foreach o,$(shell sed -n '1,5s/.*objects: *\([a-z_\/ ]*\).*/\1/p' $1),$(BUILD)/app/$o.o)
.SECONDEXPANSION:
$(BUILD)/unit/%: $(BUILD)/tests/unit/%.o $$(call unit_objects,tests/unit/$$*.c) $(BUILD)/libqueen.a
	@mkdir -p $(@D)
	$(CC) $(ALL_CFLAGS) $(LDFLAGS) -o $@ $^ -lcmocka $(LDLIBS)

# Every program runs, also after one has failed; the last line says which.
.PHONY: unit
unit: $(UNIT_BIN)
	@failed=; for t in $(UNIT_BIN); do echo "== $$t"; $$t || failed="$$failed $$t"; done; \
	if [ -n "$$failed" ]; then echo "unit tests failed:$$failed"; exit 1; fi; \
	echo "unit tests: $(words $(UNIT_BIN)) programs passed"

.PHONY: unit-sanitize
unit-sanitize:
	$(MAKE) SANITIZE=address,undefined unit

.PHONY: deps
deps:
	@deploy/install-dependencies.sh

.PHONY: run up down status
run: deps
	@$(MAKE) --no-print-directory all
	@deploy/queen.sh run
up: deps
	@$(MAKE) --no-print-directory all
	@deploy/queen.sh up
down:
	@deploy/queen.sh down
status:
	@deploy/queen.sh status

# A sub-make for each: what it needs may have been installed by the step before.
.PHONY: test
test: deps
	+@deploy/run-tests.sh all unit unit-sanitize test-sql test-deploy test-e2e test-chaos

.PHONY: test-sql test-deploy test-e2e test-chaos
test-sql:
	tests/sql/run.sh
test-deploy: all
	node --test --test-reporter=spec $(sort $(wildcard tests/deploy/*.test.mjs))
test-e2e: all
	node tests/e2e/lib/with_instance.mjs node --test --test-reporter=spec $(sort $(wildcard tests/e2e/*.test.mjs tests/e2e/clients/*.test.mjs))
test-chaos: all
	node --test --test-reporter=spec $(sort $(wildcard tests/chaos/*.test.mjs))

# The load generator and what it measures; docs/performance.md.
BENCH_OBJ := $(patsubst %.c,$(BUILD)/%.o,$(filter-out tests/bench/null_worker.c,$(wildcard tests/bench/*.c)))
$(BUILD)/bin/loadgen: $(BENCH_OBJ) $(BUILD)/libqueen.a
	@mkdir -p $(@D)
	$(CC) $(ALL_CFLAGS) $(LDFLAGS) -o $@ $^ $(LDLIBS)
# The same clients' parts with other brokers' protocols, for tests/bench/peers.mjs.
PEER_OBJ := $(patsubst %.c,$(BUILD)/%.o,$(wildcard tests/bench/peers/*.c) \
    $(patsubst %,tests/bench/%.c,bodies connection histogram options window))
$(BUILD)/bin/peer-loadgen: $(PEER_OBJ) $(BUILD)/libqueen.a
	@mkdir -p $(@D)
	$(CC) $(ALL_CFLAGS) $(LDFLAGS) -o $@ $^ $(LDLIBS)
$(BUILD)/bin/null-worker: $(BUILD)/tests/bench/null_worker.o $(BUILD)/libqueen.a
	@mkdir -p $(@D)
	$(CC) $(ALL_CFLAGS) $(LDFLAGS) -o $@ $^ $(LDLIBS)
.PHONY: bench-smoke bench
bench-smoke: all $(BUILD)/bin/loadgen
	node tests/bench/smoke.mjs
bench: all $(BUILD)/bin/loadgen $(BUILD)/bin/peer-loadgen $(BUILD)/bin/null-worker
	node tests/bench/bench.mjs

.PHONY: docs
docs: all
	deploy/write-configuration.sh $(BUILD)/bin/queenctl > docs/configuration.md

C_FILES = $(shell git ls-files '*.c' '*.h' '*.def')
.PHONY: lint
lint:
	clang-format --dry-run -Werror $(filter-out %.def,$(C_FILES))
	@if command -v cppcheck >/dev/null; then set -x; cppcheck --quiet --error-exitcode=1 --std=c11 --inline-suppr \
	    --suppress=missingIncludeSystem --enable=warning,portability -D_GNU_SOURCE -Iapp app; else echo 'cppcheck is not installed'; fi
	@if command -v shellcheck >/dev/null; then set -x; shellcheck -x $$(git ls-files '*.sh'); else echo 'shellcheck is not installed'; fi

.PHONY: clean purge
clean:
	rm -rf build build-*
purge: down
	@deploy/queen.sh purge

-include $(shell find $(BUILD) -name '*.d' 2>/dev/null)
