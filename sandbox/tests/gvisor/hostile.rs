//! Jobs that try to take more than is theirs, and what has to become of each. The benchmark runs the same list.

use mesh_sandbox::{Job, JobReport, KilledBy, Language, Outcome, RequestedLimits};

/// One hostile job.
pub(crate) struct Hostile {
    pub(crate) name: &'static str,
    language: Language,
    code: &'static str,
    outputs: &'static [&'static str],
    /// Any of these.
    ends: &'static [(Outcome, Option<KilledBy>, Option<i32>)],
}

const WALL: (Outcome, Option<KilledBy>, Option<i32>) = (Outcome::TimedOut, Some(KilledBy::Wall), None);
const CPU: (Outcome, Option<KilledBy>, Option<i32>) = (Outcome::TimedOut, Some(KilledBy::Cpu), None);
const MEMORY: (Outcome, Option<KilledBy>) = (Outcome::OomKilled, Some(KilledBy::Memory));
const SUCCESS: (Outcome, Option<KilledBy>, Option<i32>) = (Outcome::Succeeded, None, Some(0));

/// Out of memory; the first process may have said something before the kernel was done.
const OUT_OF_MEMORY: &[(Outcome, Option<KilledBy>, Option<i32>)] = &[
    (MEMORY.0, MEMORY.1, None),
    (MEMORY.0, MEMORY.1, Some(0)),
    (MEMORY.0, MEMORY.1, Some(1)),
    (MEMORY.0, MEMORY.1, Some(137)),
];

/// All of them.
pub(crate) const HOSTILE: &[Hostile] = &[
    Hostile {
        name: "fork bomb",
        language: Language::Bash,
        code: "f() { f | f & }; f; while :; do sleep 1; done",
        outputs: &[],
        ends: &[WALL, CPU],
    },
    Hostile {
        name: "fork loop",
        language: Language::Python,
        code: "import os\nwhile True:\n  try: os.fork()\n  except OSError: pass",
        outputs: &[],
        ends: &[WALL, CPU],
    },
    Hostile {
        name: "memory bomb",
        language: Language::Python,
        code: "x = []\nwhile True: x.append(bytearray(1 << 20))",
        outputs: &[],
        ends: OUT_OF_MEMORY,
    },
    Hostile {
        name: "memory bomb in node",
        language: Language::Node,
        code: "const x = []; for (;;) x.push(Buffer.alloc(1 << 20, 1));",
        outputs: &[],
        ends: OUT_OF_MEMORY,
    },
    Hostile {
        name: "memory bomb in a child of a calm parent",
        language: Language::Bash,
        code: "python3 -c 'x = []\nwhile True: x.append(bytearray(1 << 20))'; exit 0",
        outputs: &[],
        ends: OUT_OF_MEMORY,
    },
    Hostile {
        name: "disk bomb",
        language: Language::Python,
        code: "for n in range(30):\n  for dir in ('/tmp', '/work', '/work/output'): open(f'{dir}/{n}', 'wb').write(bytes(4 << 20))",
        outputs: &[],
        ends: OUT_OF_MEMORY,
    },
    Hostile {
        name: "inode bomb",
        language: Language::Python,
        code: "import os\nn = 0\nwhile True: os.mkdir(f'/tmp/{n}'); n += 1",
        outputs: &[],
        ends: &[WALL, CPU, (MEMORY.0, MEMORY.1, None)],
    },
    Hostile {
        name: "output bomb",
        language: Language::Bash,
        code: "yes",
        outputs: &[],
        ends: &[(Outcome::Failed, Some(KilledBy::Output), None)],
    },
    Hostile {
        name: "one that ignores signals",
        language: Language::Bash,
        code: "trap '' TERM INT HUP; (while :; do sleep 1; done) & while :; do sleep 1; done",
        outputs: &[],
        ends: &[WALL],
    },
    Hostile {
        name: "one that stops itself",
        language: Language::Python,
        code: "import os, signal\nos.kill(os.getpid(), signal.SIGSTOP)",
        outputs: &[],
        ends: &[WALL],
    },
    Hostile {
        name: "one that kills all it can",
        language: Language::Bash,
        code: "kill -9 -1; kill -9 $$",
        outputs: &[],
        ends: &[(Outcome::Failed, None, Some(137))],
    },
    Hostile {
        name: "descriptor bomb",
        language: Language::Python,
        code: "import os\nfds = []\ntry:\n  while True: fds.append(os.open('/dev/null', 0))\nexcept OSError: print(len(fds))",
        outputs: &[],
        ends: &[SUCCESS],
    },
    Hostile {
        name: "outputs that are links",
        language: Language::Bash,
        code: "ln -s /etc/passwd output/a; ln -s /proc/self/root output/b; echo x > output/c; ln output/c output/d",
        outputs: &["a", "b/etc/passwd", "c"],
        ends: &[(Outcome::Error, Some(KilledBy::RequestedOutputUnavailable), Some(0))],
    },
    Hostile {
        name: "names that are no text",
        language: Language::Python,
        code: "import os\nfor n in (b'\\xff\\xfe', b'new\\nline', b'-rf', b'x' * 255): open(b'output/' + n, 'w').write('x')\n\
               open('output/good', 'w').write('x')",
        outputs: &["good"],
        ends: &[SUCCESS],
    },
    Hostile {
        name: "a child that stays",
        language: Language::Bash,
        code: "(trap '' TERM HUP; setsid sleep 60) & disown; exit 0",
        outputs: &[],
        ends: &[SUCCESS],
    },
];

impl Hostile {
    /// The job, with little of everything.
    pub(crate) fn job(&self) -> Job {
        let limits = RequestedLimits {
            // What ends for another reason has time enough to come to it on a busy machine.
            wall_seconds: Some(if self.ends.contains(&WALL) { 1 } else { 30 }),
            mem_mb: Some(128),
            max_pids: Some(32),
            output_bytes: Some(64 * 1024),
            ..RequestedLimits::default()
        };
        let outputs = self.outputs.iter().map(|&path| path.to_owned()).collect();
        Job { limits, outputs, ..Job::new(self.language, self.code) }
    }

    /// Whether it was told rightly what became of it.
    pub(crate) fn is_right(&self, report: &JobReport) -> bool {
        self.ends.contains(&(report.outcome, report.killed_by, report.exit_code))
    }
}
