// SPDX-License-Identifier: GPL-2.0-only
/* LS-AIMD Reno: halves the window at the first mark of a round, down to a few bytes. */
#define NAME ls_reno
#define ALGORITHM LS_RENO

#include "ls.bpf.h"
#include "aimd_ops.bpf.h"
