//! Frames that arrive at the programs of an edge without an interface.

use std::os::fd::{AsRawFd as _, OwnedFd};

use headway_kernel::Edge;
use libbpf_rs::Program;
use libbpf_rs::query::ProgInfoIter;

/// A program of the edge that can be run on a packet as if that had arrived.
pub(crate) struct Arrival {
    program: OwnedFd,
    /// The interface from which it comes.
    from: u32,
}

impl Arrival {
    /// Finds the two of an edge.
    pub(crate) fn of(edge: &Edge, wan: u32) -> [Arrival; 2] {
        let ids = edge.programs().unwrap();
        ["edge_up", "edge_down"].map(|name| {
            let mut programs = ProgInfoIter::default().filter(|info| ids.contains(&info.id));
            let id = programs.find(|info| info.name == name).unwrap().id;
            Arrival { program: Program::fd_from_id(id).unwrap(), from: wan }
        })
    }

    /// Lets a frame arrive.
    pub(crate) fn of_frame(&self, frame: &mut [u8]) {
        let mut out = vec![0; frame.len() + 256];
        // SAFETY: all-zero is valid for this structure.
        let mut options: libbpf_sys::bpf_test_run_opts = unsafe { std::mem::zeroed() };
        options.sz = size_of_val(&options) as libbpf_sys::size_t;
        options.data_in = frame.as_ptr().cast();
        options.data_size_in = frame.len() as u32;
        options.data_out = out.as_mut_ptr().cast();
        options.data_size_out = out.len() as u32;
        // Of `struct __sk_buff` all is zero but where the packet came from.
        let mut context = [0_u32; 46];
        context[INGRESS] = self.from;
        options.ctx_in = context.as_ptr().cast();
        options.ctx_size_in = size_of_val(&context) as u32;
        // SAFETY: the descriptor is open, the options are valid, and what they point to outlives the call.
        let result =
            unsafe { libbpf_sys::bpf_prog_test_run_opts(self.program.as_raw_fd(), &raw mut options) };
        assert_eq!((result, options.retval), (0, u32::MAX), "{frame:02x?}");
        assert_eq!(options.data_size_out as usize, frame.len(), "{frame:02x?}");
        frame.copy_from_slice(&out[..frame.len()]);
    }
}

/// The place of `ingress_ifindex` in `struct __sk_buff`, in words.
const INGRESS: usize = 9;
