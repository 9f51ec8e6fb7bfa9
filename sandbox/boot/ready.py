# Says READY on descriptor 3 before any code of the job runs, gives the channel up, then becomes the job.
import os, sys
os.write(3, b"READY\n")
os.close(3)
# What a job printed is seen at once, and not lost when the job is ended.
sys.stdout.reconfigure(line_buffering=True)
sys.argv = ["/job/main.py"]
__file__ = "/job/main.py"
# The job's traceback starts at the job's own first frame.
def hook(kind, error, trace, show=sys.__excepthook__):
    trace = trace and trace.tb_next
    show(kind, error.with_traceback(trace), trace)
sys.excepthook = hook
with open(__file__, "rb") as source:
    code = source.read()
del hook, os, source, sys
exec(compile(globals().pop("code"), __file__, "exec"))
