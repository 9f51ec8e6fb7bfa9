# Says on 4 that the shell is up, waits on 3 for a job, and gives both up; then Bash opens the job's file.
printf . >&4
exec 4>&-
read -r -u 3
exec 3<&-
unset BASH_ENV REPLY
