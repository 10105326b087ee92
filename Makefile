# Build of the product. `make help` lists the targets.
CC      ?= cc
BUILD   ?= build
CFLAGS  ?= -O2 -g
WARN    := -Wall -Wextra -Wshadow -Wconversion -Werror
PG_INC  := $(shell pg_config --includedir 2>/dev/null)
# SANITIZE=address,undefined or SANITIZE=thread builds into a directory of its own.
ifdef SANITIZE
BUILD   := build-$(subst $(comma),-,$(SANITIZE))
CFLAGS  := -O1 -g -fno-omit-frame-pointer -fsanitize=$(SANITIZE)
endif
comma   := ,
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

define PROGRAM_RULE
OBJ_$1 := $$(patsubst %.c,$$(BUILD)/%.o,$$(wildcard app/$1/*.c))
$$(BUILD)/bin/$$(BIN_$1): $$(OBJ_$1) $$(BUILD)/libqueen.a
	@mkdir -p $$(@D)
	$$(CC) $$(ALL_CFLAGS) $$(LDFLAGS) -o $$@ $$^ $$(LDLIBS)
endef
$(foreach p,$(PROGRAMS),$(eval $(call PROGRAM_RULE,$p)))

# The SQL is compiled into queenctl. The directories are named too: a removed file changes them.
SQL_FILES := $(sort $(wildcard sql/migrations/*.sql)) $(sort $(wildcard sql/functions/*.sql))
$(BUILD)/sql_files.c: app/ctl/embed.sh $(SQL_FILES) sql/migrations sql/functions
	@mkdir -p $(@D)
	sh app/ctl/embed.sh $(SQL_FILES) >$@.new && mv $@.new $@
$(BUILD)/sql_files.o: $(BUILD)/sql_files.c
	$(CC) $(CPPFLAGS) $(ALL_CFLAGS) -c -o $@ $<
$(BUILD)/bin/queenctl: $(BUILD)/sql_files.o

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

.PHONY: unit
unit: $(UNIT_BIN)
	@set -e; for t in $(UNIT_BIN); do $$t; done

.PHONY: clean
clean:
	rm -rf build build-*

-include $(shell find $(BUILD) -name '*.d' 2>/dev/null)
