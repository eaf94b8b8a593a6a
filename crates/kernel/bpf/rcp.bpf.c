// SPDX-License-Identifier: GPL-2.0-only
/* RCP: routers say how fast to send (xcp-rcp 2.12). Its packets are paced at that rate. */
#define VERSION EXPLICIT_VERSION_RCP

#include "end_wire.bpf.h"
#include "end_option.bpf.h"
#include "end_control.bpf.h"

END_CONTROLLER(rcp);
