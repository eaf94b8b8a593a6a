// SPDX-License-Identifier: GPL-2.0-only
/* LS-AIMD DCTCP: reduces by the fraction of marked segments, with windows down to a few bytes. */
#define NAME ls_dctcp
#define ALGORITHM LS_DCTCP

#include "ls.bpf.h"
#include "aimd_ops.bpf.h"
