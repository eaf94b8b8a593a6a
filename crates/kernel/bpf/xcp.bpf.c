// SPDX-License-Identifier: GPL-2.0-only
/* XCP: routers say how much faster or slower to become (xcp-rcp 2.1, 2.2). */
#define VERSION EXPLICIT_VERSION_XCP

#include "end_wire.bpf.h"
#include "end_option.bpf.h"
#include "end_control.bpf.h"

END_CONTROLLER(xcp);
