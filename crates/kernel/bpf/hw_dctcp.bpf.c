// SPDX-License-Identifier: GPL-2.0-only
/* DCTCP with a floor of two segments: the baseline for ls_dctcp, also where the kernel has no DCTCP. */
#define NAME hw_dctcp
#define ALGORITHM LS_DCTCP

#include "aimd.bpf.h"
#include "aimd_ops.bpf.h"
