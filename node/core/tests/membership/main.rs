//! Membership of whole meshes: joining, crashes, splits and healing, in virtual time.

mod faults;
mod healing;
mod mesh;
mod records;
