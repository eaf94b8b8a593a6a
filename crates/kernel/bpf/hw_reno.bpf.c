// SPDX-License-Identifier: GPL-2.0-only
/* Reno that responds to marks, with a floor of two segments: the baseline for ls_reno. */
#define NAME hw_reno
#define ALGORITHM LS_RENO

#include "aimd.bpf.h"
#include "aimd_ops.bpf.h"
